// A device of Tacit's intake in JavaScript: one record, one question, one message. Node 20 or later, node:crypto only.
// The format is docs/wire-devices.md; `node tacit-device.mjs vectors FILE` reproduces its test vectors.
//
//   node tacit-device.mjs answer URL --digest HEX --state device.json --features 1,2,3 --label a
//        --budget 4 --largest-epsilon 1 --purpose "reverse k-NN labels" [--shuffler HEX] [--token HEX]
//
// It pays first: the payment is on disk before the record is read, and the message before it is sent. The same question
// gets the same bytes again. It charges the local epsilon of a message, even if a shuffler amplifies it to less.
import crypto from "node:crypto";
import fs from "node:fs";

const FORM = 0x21, NAMING = 8, ID = 16, TOKEN = 32;
const LARGEST_QUESTION = 4 * 2 ** 20;
const X25519_PRIVATE = Buffer.from("302e020100300506032b656e04220420", "hex");
const X25519_PUBLIC = Buffer.from("302a300506032b656e032100", "hex");

export const hex = (bytes) => Buffer.from(bytes).toString("hex");
const fail = (words) => { throw new Error(words); };

// ---- The codec: "TACIT1", 8 bytes with the length of a JSON head, the head, then the arrays that it names.

const ITEMS = { "|u1": 1, "<f4": 4, "<f8": 8 };

export function decode(payload) {
  if (payload.subarray(0, 6).toString("latin1") !== "TACIT1" || payload.length < 14) fail("not an encoded value");
  const length = Number(payload.readBigUInt64LE(6));
  if (length > payload.length - 14) fail("the head is cut short");
  let offset = 14 + length;
  const whole = (item) => {
    if (Array.isArray(item)) return item.map(whole);
    if (item === null || typeof item !== "object") return item;
    if (item.items) return Object.fromEntries(Object.entries(item.items).map(([name, each]) => [name, whole(each)]));
    const size = ITEMS[item.array] ?? fail("an array of a type that is not known");
    const count = item.shape.reduce((product, side) => product * side, 1);
    const end = offset + count * size;
    if (!Number.isSafeInteger(end) || end > payload.length) fail("an array is cut short");
    const part = payload.subarray(offset, end);
    offset = end;
    if (size === 1) return part;
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) values[i] = size === 4 ? part.readFloatLE(4 * i) : part.readDoubleLE(8 * i);
    return { shape: item.shape, values };
  };
  const value = whole(JSON.parse(payload.subarray(14, 14 + length).toString("utf8")));
  if (offset !== payload.length) fail("bytes are left over");
  return value;
}

export function readQuestion(payload, digest) {
  if (payload.length > LARGEST_QUESTION) fail("the question is too large");
  const name = crypto.createHash("sha256").update(payload).digest("hex");
  if (name !== digest) fail("what was fetched is not the question of this digest");
  const file = decode(payload);
  if (file.version !== 1) fail("a question file of another version");
  const ask = decode(file.ask);
  if (ask.ask !== "rknn-votes" || ask.labels !== null || ask.connections !== "nearest") fail("not a question for devices");
  const sealed = ask.mechanism.kind === "shuffled";
  const mechanism = sealed ? ask.mechanism.inner.mechanism : ask.mechanism;
  if (!Object.hasOwn(RANDOMIZERS, mechanism.kind)) fail(`this client does not know ${String(mechanism.kind).slice(0, 40)}`);
  requireShapes(ask, mechanism);
  if (sealed && (file.key.length !== 32 || file.shuffler.length !== 32)) fail("shuffled messages need two keys");
  const [numerator, denominator = "1"] = mechanism.epsilon.split("/");
  const epsilon = { p: BigInt(numerator), q: BigInt(denominator) };
  if (epsilon.p <= 0n || epsilon.p > 500n * epsilon.q) fail("epsilon is out of range");
  if (!Number.isFinite(Number(epsilon.q) * 500)) fail("epsilon has too many digits");
  return { ...file, digest, ask, sealed, mechanism, epsilon };
}

// Whatever could fail for some records only is refused here, before anything is paid: whether a device answers must not
// depend on its record.
function requireShapes({ queries, heights, names, neighbors, representation }, { cells, ones, size = 1 }) {
  const [count, width] = queries.shape, numbers = (array) => array?.values instanceof Float64Array ? array : fail("not numbers");
  if (!Array.isArray(names) || !names.every((name) => typeof name === "string") || new Set(names).size !== names.length)
    fail("the classes must be different texts");
  if (!Number.isInteger(neighbors) || neighbors < 1 || neighbors > count) fail("neighbors must be among the queries");
  if (queries.shape.length !== 2 || cells !== count * names.length || ones !== neighbors || ones >= cells)
    fail("the mechanism is made for other cells");
  if (!Number.isInteger(size) || size < 1 || size > cells - ones) fail("the size of a subset is out of range");
  if (heights !== null && numbers(heights).values.length !== count) fail("one height is needed per query");
  const { kind, mean, spread, directions } = representation;
  for (const array of { identity: [], standardized: [mean, spread], principal: [mean, directions] }[kind] ?? []) numbers(array);
  const found = encoded(representation, Array(samples(representation)).fill(0));
  const fitting = kind !== "principal" || directions.shape[1] === mean.values.length;
  if (found.length !== width || !fitting || (kind === "standardized" && spread.values.length !== width))
    fail("the queries are not in the space of the representation");
}

// ---- The cells of a record: the features of its representation, its nearest queries, its label's column.

export function cellsOf(question, sample, label) {
  const { ask } = question;
  const features = encoded(ask.representation, sample);
  const [count, width] = ask.queries.shape;
  if (features.length !== width) fail("the record has other features than the question");
  const distances = Array.from({ length: count }, (_, row) => {
    let sum = ask.heights === null ? 0 : ask.heights.values[row] ** 2;
    for (let i = 0; i < width; i++) sum += (features[i] - ask.queries.values[row * width + i]) ** 2;
    return [sum, row];
  });
  const nearest = distances.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, ask.neighbors).map(([, row]) => row);
  return nearest.sort((a, b) => a - b).map((row) => row * ask.names.length + ask.names.indexOf(label));
}

function encoded(representation, sample) {
  const same = (width) => (sample.length === width ? sample : fail("the record has another number of features"));
  switch (representation.kind) {
    case "identity":
      return same(representation.width).map(Math.fround);
    case "standardized": {
      const { mean, spread } = representation;
      return same(mean.values.length).map((value, i) => Math.fround((value - mean.values[i]) / spread.values[i]));
    }
    case "principal": {
      const { mean, directions } = representation;
      const centered = same(mean.values.length).map((value, i) => value - mean.values[i]);
      return Array.from({ length: directions.shape[0] }, (_, row) =>
        Math.fround(centered.reduce((sum, value, i) => sum + value * directions.values[row * centered.length + i], 0)));
    }
    default:
      return fail(`this client does not know the representation ${String(representation.kind).slice(0, 40)}`);
  }
}

// ---- Exact sampling: 64-bit words of the cryptographic generator, compared as integers.

export class Words {
  constructor(script = null) { this.script = script; this.used = 0; }
  take(count) {
    const bytes = this.script ? this.script.subarray(8 * this.used, 8 * (this.used + count)) : crypto.randomBytes(8 * count);
    if (bytes.length < 8 * count) fail("the scripted words are used up");
    this.used += count;
    return Array.from({ length: count }, (_, i) => bytes.readBigUInt64LE(8 * i));
  }
  below(bound) {
    const limit = BigInt(bound), mask = (1n << BigInt((limit - 1n).toString(2).length)) - 1n;
    for (;;) {
      // Rejection sampling, ten words at a time: the first masked value below the bound is used.
      const found = this.take(10).map((word) => (limit === 1n ? 0n : word & mask)).find((word) => word < limit);
      if (found !== undefined) return Number(found);
    }
  }
}

// Whole numbers around 2^scale times e^(p/q).
function exponential({ p, q }, scale) {
  let halvings = 0n;
  while (p * 2n >= q << halvings) halvings += 1n;
  const bits = BigInt(scale) + 160n;
  const one = 1n << bits, x = (p << bits) / (q << halvings);
  let sum = one, term = one;
  for (let n = 1n; term > 0n; n += 1n) { term = (term * x >> bits) / n; sum += term; }
  for (let i = 0n; i < halvings; i += 1n) sum = sum * sum >> bits;
  // Fewer than 2^10 roundings, doubled by at most 2^11 squarings' growth, are far below the 160 spare bits.
  const slack = (sum >> (BigInt(scale) + 64n)) + 1n;
  return [(sum - slack) >> 160n, ((sum + slack) >> 160n) + 1n];
}

// One of several outcomes, each with the weight plain + grown·e^ε, exactly.
export function draw(weights, epsilon, words) {
  let [word] = words.take(1), bits = 64;
  for (;;) {
    const scale = bits + 64, unit = 1n << BigInt(scale);
    const ends = exponential(epsilon, scale).map((e) => {
      const sizes = weights.map(([plain, grown]) => plain * unit + grown * e);
      const total = sizes.reduce((a, b) => a + b);
      let running = 0n;
      return sizes.slice(0, -1).map((size) => [((running += size) << BigInt(bits)) / total, total]);
    });
    const low = ends[0].map(([value], i) => (value < ends[1][i][0] ? value : ends[1][i][0]));
    const high = ends[0].map(([value], i) => (value > ends[1][i][0] ? value : ends[1][i][0]) + 1n);
    const certain = high.filter((bound) => bound <= word).length, touched = low.filter((bound) => bound <= word).length;
    if (certain === touched) return certain;
    word = (word << 64n) | words.take(1)[0];
    bits += 64;
  }
}

const product = (from, to) => { let all = 1n; for (let i = from; i < to; i++) all *= BigInt(i); return all; };
const choose = (n, k) => product(n - k + 1, n + 1) / product(1, k + 1);

// Each returns the packed bytes of one message about the cells of one client.
const RANDOMIZERS = {
  "generalized-response": ({ cells, ones }, epsilon, held, words) => {
    const own = draw([[BigInt(cells - ones), 0n], [0n, BigInt(ones)]], epsilon, words);
    const mine = held[words.below(ones)];
    let other = words.below(cells - ones);
    for (const cell of held) if (other >= cell) other += 1;
    return lowest(own ? mine : other, Math.max(1, Math.ceil((cells - 1).toString(2).length / 8)));
  },
  "subset-selection": ({ cells, ones, size }, epsilon, held, words) => {
    const outside = cells - ones - size;
    const weights = Array.from({ length: ones + 1 }, (_, j) => {
      const ways = choose(ones, j) * product(size - j + 1, size + 1) * product(outside + 1 + j, outside + 1 + ones);
      return j ? [0n, ways] : [ways, 0n];
    });
    const overlap = draw(weights, epsilon, words);
    const bits = startingBits(cells, size, words);
    for (const cell of held) bits[cell] = 0;
    let missing = size - overlap - bits.reduce((a, b) => a + b, 0);
    while (missing) {
      const cell = words.below(cells), value = missing > 0 ? 1 : 0;
      if (bits[cell] === value || held.includes(cell)) continue;
      bits[cell] = value;
      missing += value ? -1 : 1;
    }
    for (const place of permutation(ones, words).slice(0, overlap)) bits[held[place]] = 1;
    return packedSet(cells, size, bits);
  },
};

function startingBits(cells, size, words) {
  const density = Math.max(0, Math.floor(256 * (size - 2 * Math.sqrt(size)) / cells)), width = Math.ceil(cells / 64);
  let rows = Array(width).fill(0n);
  for (let place = 0; place < 8; place++) {
    if (!(density & ((2 << place) - 1))) continue;
    const drawn = words.take(width);
    rows = rows.map((row, i) => ((density >> place) & 1 ? row | drawn[i] : row & drawn[i]));
  }
  return Array.from({ length: cells }, (_, cell) => Number((rows[cell >> 6] >> BigInt(cell & 63)) & 1n));
}

function permutation(size, words) {
  for (;;) {
    const drawn = words.take(size);
    if (new Set(drawn).size === size)
      return drawn.map((word, place) => [word, place]).sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([, place]) => place);
  }
}

function lowest(number, size) {
  return Buffer.from(Array.from({ length: size }, (_, i) => Math.floor(number / 256 ** i) % 256));
}

function packedBits(bits) {
  const bytes = Buffer.alloc(Math.ceil(bits.length / 8));
  bits.forEach((bit, place) => { if (bit) bytes[place >> 3] |= 1 << (place & 7); });
  return bytes;
}

// Low bits of the set's cells, then their high parts: as many zeros as they rise, and a one. Plain bits where shorter.
function packedSet(cells, size, bits) {
  const low = Math.max(0, Math.floor(cells / size).toString(2).length - 1);
  const total = size * (low + 1) + ((cells - 1) >> low);
  if (total >= cells) return packedBits(bits);
  const held = bits.flatMap((bit, cell) => (bit ? [cell] : []));
  const code = Array(total).fill(0);
  held.forEach((cell, i) => {
    for (let place = 0; place < low; place++) code[i * low + place] = (cell >> place) & 1;
    code[size * low + (cell >> low) + i] = 1;
  });
  return packedBits(code);
}

export function randomize(question, held, words = new Words()) {
  return RANDOMIZERS[question.mechanism.kind](question.mechanism, question.epsilon, held, words);
}

// ---- Boxes: X25519 with a fresh key, HKDF-SHA256, ChaCha20-Poly1305 with a zero nonce.

export function seal(publicKey, content, context, secret = crypto.randomBytes(32)) {
  const own = crypto.createPrivateKey({ key: Buffer.concat([X25519_PRIVATE, secret]), format: "der", type: "pkcs8" });
  const theirs = crypto.createPublicKey({ key: Buffer.concat([X25519_PUBLIC, publicKey]), format: "der", type: "spki" });
  const ownPublic = crypto.createPublicKey(own).export({ format: "der", type: "spki" }).subarray(-32);
  const shared = crypto.diffieHellman({ privateKey: own, publicKey: theirs });
  const info = Buffer.concat([Buffer.from("seal"), Buffer.from(context), ownPublic, publicKey].flatMap((part) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(part.length));
    return [length, part];
  }));
  const key = Buffer.from(crypto.hkdfSync("sha256", shared, Buffer.from("tacit 1"), info, 32));
  const cipher = crypto.createCipheriv("chacha20-poly1305", key, Buffer.alloc(12), { authTagLength: 16 });
  cipher.setAAD(Buffer.from(context), { plaintextLength: content.length });
  const sealed = Buffer.concat([cipher.update(content), cipher.final()]);
  return Buffer.concat([ownPublic, sealed, cipher.getAuthTag()]);
}

export function message(question, token, packed, secrets = []) {
  if (token.length !== (question.admission === "tokens" ? TOKEN : ID)) fail("the token has another length");
  let payload = packed;
  if (question.sealed) {
    const inner = seal(question.key, Buffer.concat([Buffer.from([1]), packed]), question.digest, secrets[0]);
    payload = seal(question.shuffler, inner, `mix ${question.digest}`, secrets[1]);
  }
  return Buffer.concat([Buffer.from([FORM]), Buffer.from(question.digest, "hex").subarray(0, NAMING), token, payload]);
}

// ---- The device: a policy, a small ledger in one file, and two calls.

export function answer(payload, digest, record, policy, file) {
  const question = readQuestion(payload, digest);
  const epsilon = Number(question.epsilon.p) / Number(question.epsilon.q);
  if (Date.now() / 1000 >= question.closes) fail("the question is closed");
  if (!policy.purposes.includes(question.ask.purpose)) fail("the question is for a purpose that is not allowed");
  // Negated, so that a limit that is missing or not a number refuses.
  if (!(epsilon <= policy.largestEpsilon)) fail("the question's epsilon is larger than is allowed");
  if (question.sealed && hex(question.shuffler) !== policy.shuffler) fail("the question names another shuffler");
  if (question.admission === "tokens" && Buffer.from(policy.token ?? "", "hex").length !== TOKEN)
    fail("the question is for devices with an issued token");
  if (record.features.length !== samples(question.ask.representation)) fail("the record has other features");
  const { queries, neighbors, names } = question.ask;
  const asked = crypto.createHash("sha256")
    .update(JSON.stringify([neighbors, names, queries.shape])).update(Buffer.from(queries.values.buffer)).digest("hex");
  const state = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : { spent: 0, answers: {} };
  const known = state.answers[asked];
  if (known && known.digest !== digest) fail("the same queries were answered in another question");
  if (!known) {
    if (!(state.spent + epsilon <= policy.budget)) fail("the budget does not allow another answer");
    const token = question.admission === "tokens" ? policy.token : hex(crypto.randomBytes(ID));
    state.spent += epsilon;
    state.answers[asked] = { digest, token, epsilon };
    written(file, state);
  }
  const entry = state.answers[asked];
  if (!entry.body) {
    // Paid: from here on nothing is refused. A record that cannot be compared answers with random cells.
    entry.body = hex(message(question, Buffer.from(entry.token, "hex"), randomize(question, heldCells(question, record))));
    written(file, state);
  }
  return Buffer.from(entry.body, "hex");
}

const samples = ({ kind, width, mean }) => (kind === "identity" ? width : mean?.values.length ?? fail("unknown representation"));

function heldCells(question, { features, label }) {
  const { neighbors, queries, names } = question.ask;
  if (names.includes(label) && features.every(Number.isFinite)) return cellsOf(question, features, label);
  const words = new Words(), column = words.below(names.length);
  const rows = permutation(queries.shape[0], words).slice(0, neighbors).sort((a, b) => a - b);
  return rows.map((row) => row * names.length + column);
}

function written(file, state) {
  const draft = `${file}.new`, descriptor = fs.openSync(draft, "w", 0o600);
  fs.writeSync(descriptor, JSON.stringify(state));
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
  fs.renameSync(draft, file);
}

export async function fetchQuestion(url, digest) {
  const response = await fetch(`${url}/question/${digest}`, { redirect: "error" });
  if (!response.ok) fail(`the intake has no such question (status ${response.status})`);
  const parts = [];
  let size = 0;
  for await (const part of response.body) {
    if ((size += part.length) > LARGEST_QUESTION) fail("the question is too large");
    parts.push(part);
  }
  return Buffer.concat(parts);
}

export async function post(url, body) {
  const response = await fetch(`${url}/`, { method: "POST", body, redirect: "error" });
  return { status: response.status, word: (await response.text()).slice(0, 200) };
}

// ---- The command.

export function checkVectors(vectors) {
  const differ = [];
  for (const each of vectors.messages) {
    const question = readQuestion(Buffer.from(each.question, "hex"), each.digest);
    const held = cellsOf(question, each.features, each.label);
    const words = new Words(Buffer.from(each.words, "hex"));
    const packed = randomize(question, held, words);
    const secrets = each.fresh.map((secret) => Buffer.from(secret, "hex"));
    const body = message(question, Buffer.from(each.token, "hex"), packed, secrets);
    const got = { cells: held, used: words.used, packed: hex(packed), message: hex(body) };
    for (const [name, value] of Object.entries(got))
      if (JSON.stringify(value) !== JSON.stringify(each[name])) differ.push(`${each.name}: ${name}`);
  }
  return differ;
}

async function main([command, target, ...rest]) {
  const options = {};
  for (let i = 0; i < rest.length; i += 2) options[rest[i].replace(/^--/, "")] = rest[i + 1];
  if (command === "vectors") {
    const vectors = JSON.parse(fs.readFileSync(target, "utf8")), differ = checkVectors(vectors);
    console.log(differ.length ? differ.join("\n") : `${vectors.messages.length} vectors reproduced`);
    process.exitCode = differ.length ? 1 : 0;
  } else if (command === "answer") {
    const record = { features: options.features.split(",").map(Number), label: options.label };
    const policy = {
      budget: Number(options.budget), largestEpsilon: Number(options["largest-epsilon"]), purposes: [options.purpose],
      shuffler: options.shuffler, token: options.token,
    };
    const body = answer(await fetchQuestion(target, options.digest), options.digest, record, policy, options.state);
    const { status, word } = await post(target, body);
    console.log(`${status} ${word}`);
    process.exitCode = status === 200 ? 0 : 1;
  } else {
    console.error("use: node tacit-device.mjs vectors FILE | answer URL --digest … (see the head of this file)");
    process.exitCode = 2;
  }
}

if (process.argv[1] && import.meta.url === new URL(`file://${fs.realpathSync(process.argv[1])}`).href)
  main(process.argv.slice(2)).catch((error) => { console.error(error.message); process.exitCode = 1; });
