"""The device: pays before it looks, answers a question once, sends the same bytes again, and believes nobody."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from tacit.core.errors import BudgetExceeded, InvalidInput, LimitExceeded
from tacit.core.randomness import SystemRandomness
from tacit.federation.intake import device as device_module
from tacit.federation.intake.device import device_price
from tacit.federation.intake.messages import issue_tokens, open_outer_box, read_device_message
from tacit.federation.keys import public_key, unseal
from tacit.ledger.sqlite import SqliteLedger
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.rknn.holder import OneRecordHolders
from tests.federation.intake.questions import (
    CELLS,
    COORDINATOR,
    QUERIES,
    SHUFFLER,
    a_device,
    a_policy,
    local_question,
    sealed_question,
)


def spent(device):
    with SqliteLedger(device.folder / "device.ledger") as ledger:
        return [each.receipt.spend.epsilon for each in ledger.payments("device")]


def answered(device, question, **options):
    return device.answer(question.to_bytes(), question.digest, **options)


def test_one_question_is_one_payment_and_the_same_bytes_ever_after(tmp_path):
    question, device = local_question(), a_device(tmp_path)
    body = answered(device, question)
    assert read_device_message(body, question).payload in [bytes([cell]) for cell in range(CELLS)]
    assert [answered(a_device(tmp_path), question) for _ in range(3)] == [body] * 3
    assert spent(device) == [2]
    assert all(file.stat().st_mode & 0o077 == 0 for file in device.folder.iterdir())


def test_a_device_that_crashes_between_paying_and_sending_sends_what_it_paid_for(tmp_path, monkeypatch):
    question, device = sealed_question(), a_device(tmp_path)

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device_module.DeviceMessage, "to_bytes", crash)
        with pytest.raises(KeyboardInterrupt):
            answered(device, question)
    assert len(spent(device)) == 1
    with monkeypatch.context() as patch:
        # Nothing is drawn and nothing sealed any more.
        patch.setattr(SubsetSelection, "encode", crash)
        patch.setattr(device_module, "double_box", crash)
        body = answered(a_device(tmp_path), question)
    assert answered(a_device(tmp_path), question) == body
    assert len(spent(device)) == 1


def test_a_device_that_crashes_before_its_draw_is_kept_draws_once_and_pays_once(tmp_path, monkeypatch):
    question, device = local_question(), a_device(tmp_path)

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLedger, "store_release", crash)
        with pytest.raises(KeyboardInterrupt):
            answered(device, question)
    token = next(device.folder.glob("*.token")).read_bytes()
    body = answered(device, question)
    assert answered(device, question) == body
    assert next(device.folder.glob("*.token")).read_bytes() == token
    assert spent(device) == [2]


def test_the_same_queries_in_another_question_are_not_answered_again(tmp_path):
    device = a_device(tmp_path)
    answered(device, local_question())
    for again in (
        local_question(request="r-2"),
        local_question(GeneralizedRandomizedResponse(CELLS, 1, 1)),
        local_question(closes=3_999_999_999),
        sealed_question(),
    ):
        with pytest.raises(InvalidInput, match="answers only once"):
            answered(device, again)
    answered(device, local_question(queries=QUERIES + 1))
    assert spent(device) == [2, 2]


def test_no_question_is_answered_beyond_the_budget_or_the_limit_of_one(tmp_path):
    device = a_device(tmp_path, policy=a_policy(epsilon=3))
    answered(device, local_question())
    with pytest.raises(BudgetExceeded):
        answered(device, local_question(queries=QUERIES + 1))
    with pytest.raises(LimitExceeded, match="one question"):
        answered(a_device(tmp_path / "other", policy=a_policy(question="1/2")), local_question())
    with pytest.raises(InvalidInput, match="larger epsilon"):
        answered(a_device(tmp_path / "other", policy=a_policy(local="199/100")), local_question())
    assert spent(device) == [2]


def test_what_the_intake_sends_is_believed_only_with_its_digest_and_within_the_policy(tmp_path):
    question, device = local_question(), a_device(tmp_path)
    payload = question.to_bytes()
    for content, digest, policy in (
        (payload + b"\0", question.digest, a_policy()),
        (local_question(request="r-2").to_bytes(), question.digest, a_policy()),
        (payload, "00" * 32, a_policy()),
        (payload, question.digest, a_policy(largest=len(payload) - 1)),
        (payload, question.digest, a_policy(purposes=("something else",))),
    ):
        with pytest.raises(InvalidInput):
            a_device(tmp_path, policy=policy).answer(content, digest)
    with pytest.raises(InvalidInput, match="closed"):
        answered(a_device(tmp_path, clock=lambda: 5e9), question)
    with pytest.raises(InvalidInput, match="token"):
        answered(device, local_question(admission="tokens"))
    many = np.arange(303, dtype=np.float32).reshape(101, 3)
    with pytest.raises(InvalidInput, match="more queries and classes"):
        answered(device, local_question(GeneralizedRandomizedResponse(202, 101, 1), queries=many, neighbors=101))
    with pytest.raises(InvalidInput, match="a different kind"):
        answered(a_device(tmp_path, sample=(1, 2)), question)
    # Nothing of it was paid for.
    assert not device.folder.exists() or not (device.folder / "device.ledger").exists() or spent(device) == []


def test_messages_are_sealed_for_the_shuffler_that_the_owner_trusts_and_for_nobody_else(tmp_path):
    question = sealed_question()
    for policy in (a_policy(shuffler=None), a_policy(shuffler=public_key(COORDINATOR))):
        with pytest.raises(InvalidInput, match="another shuffler"):
            answered(a_device(tmp_path / "none", policy=policy), question)
    box = read_device_message(answered(a_device(tmp_path), question), question).payload
    assert unseal(COORDINATOR, box, question.digest) is None
    inner = open_outer_box(question, SHUFFLER, box)
    packed = unseal(COORDINATOR, inner, question.digest)[1:]
    found = question.mechanism.code.unpack(np.frombuffer(packed, dtype=np.uint8)[None])
    assert question.mechanism.code.valid(found).all()


def test_a_token_of_a_wrong_length_is_refused_before_the_device_pays_for_it(tmp_path):
    question, device = local_question(admission="tokens"), a_device(tmp_path)
    (token,) = issue_tokens(b"k" * 32, question, 1)
    for wrong in (token[:-1], token[:16], b""):
        with pytest.raises(InvalidInput, match="32 bytes"):
            answered(device, question, token=wrong)
    assert not device.folder.exists()
    assert read_device_message(answered(device, question, token=token), question, b"k" * 32).token == token


def test_a_token_that_was_handed_out_is_used(tmp_path):
    question = local_question(admission="tokens")
    (token,) = issue_tokens(b"k" * 32, question, 1)
    body = answered(a_device(tmp_path), question, token=token)
    assert read_device_message(body, question, b"k" * 32).token == token


@pytest.mark.parametrize(
    ("sample", "label"), [((np.nan, 0, 0), "a"), ((np.inf, 0, 0), "a"), ((0.5, 0, 0), "neither"), ((1e300, 0, 0), "b")]
)
def test_no_record_makes_a_device_refuse_or_pay_differently(tmp_path, sample, label):
    question, device = local_question(), a_device(tmp_path, sample=sample, label=label)
    assert len(answered(device, question)) == len(answered(a_device(tmp_path / "plain"), question))
    assert spent(device) == [2]


def test_the_record_is_not_touched_before_it_is_paid_for(tmp_path, monkeypatch):
    happened = []
    charge, cells = SqliteLedger.charge, OneRecordHolders._own_cells

    def charged(*arguments, **options):
        happened.append("paid")
        return charge(*arguments, **options)

    def touched(*arguments, **options):
        happened.append("touched")
        return cells(*arguments, **options)

    monkeypatch.setattr(SqliteLedger, "charge", charged)
    monkeypatch.setattr(OneRecordHolders, "_own_cells", touched)
    answered(a_device(tmp_path), local_question())
    assert happened == ["paid", "touched"]


def test_randomness_is_the_system_s_cryptographic_generator(tmp_path):
    device = a_device(tmp_path)
    answered(device, local_question())
    with SqliteLedger(device.folder / "device.ledger") as ledger:
        assert [each.receipt.randomness for each in ledger.payments("device")] == [SystemRandomness.origin]


@pytest.mark.parametrize("local", ["1/2", 2])
@pytest.mark.parametrize("devices", [100, 2000])
def test_a_device_never_pays_less_than_the_proven_price_nor_more_than_unmixed(local, devices):
    plan = SingleMessage(GeneralizedRandomizedResponse(20, 1, local), devices, "1e-6")
    price = device_price(plan, 10**9)
    assert plan.spend.epsilon <= price.epsilon <= plan.mechanism.epsilon
    assert price.delta == plan.delta
    # Who relies on fewer pays more: an asker that names a large crowd lowers no price.
    assert device_price(plan, 50).epsilon >= price.epsilon
    assert device_price(plan, 1).epsilon == Fraction(local)


PROGRAM = """
import sys
from pathlib import Path

class Wall:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top not in {"tacit", "numpy", "cryptography", "_cffi_backend"} | sys.stdlib_module_names:
            raise ModuleNotFoundError(f"not on a device: {name}", name=name)

sys.meta_path.insert(0, Wall())
import numpy as np
import tacit.federation.intake.device
from tacit.federation.intake.device import Device, DevicePolicy

folder, files = Path(sys.argv[1]), sys.argv[2:]
policy = DevicePolicy(10, 5, 5, ("reverse k-NN labels",), "1e-5", bytes.fromhex(files.pop()))
for number, file in enumerate(files):
    payload = Path(file).read_bytes()
    device = Device(folder / str(number), np.zeros(3), "a", policy)
    import hashlib
    print(len(device.answer(payload, hashlib.sha256(payload).hexdigest())))
"""


def test_a_device_needs_numpy_and_cryptography_and_nothing_else(tmp_path):
    questions = [local_question(), local_question(SubsetSelection(CELLS, 1, 1)), sealed_question(1000)]
    files = []
    for number, question in enumerate(questions):
        files.append(tmp_path / f"{number}.tacit")
        files[-1].write_bytes(question.to_bytes())
    command = [sys.executable, "-c", PROGRAM, tmp_path, *files, public_key(SHUFFLER).hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["26", "26", "123"]
