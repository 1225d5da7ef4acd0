"""Streamed records are those that were opened: a file that is changed between two passes over it is not counted."""

import dataclasses
import logging
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

from tacit.core.errors import TacitError
from tacit.core.guarantee import Unit
from tacit.core.randomness import SystemRandomness
from tacit.engines.engine import Threads
from tacit.engines.file_states import FileState
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tacit.ledger import Ceiling, open_ledger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.noisy_sgd.holder import GradientHolder
from tacit.methods.rknn.holder import VoteHolder
from tacit.private.gate import Gate
from tacit.private.records import Private
from tests.engines.holdings import CLASSES, GRADIENT, SUMS, TABLES, VOTES, in_memory, table

RECORDS, OTHERS = table(300), table(300, seed=5)
COLUMNS = [f"f{place}" for place in range(4)]
ASK = dataclasses.replace(VOTES, mechanism=DiscreteLaplaceNoise.for_epsilon(100, 4))


def csv(folder, content):
    pa.csv.write_csv(content, folder / "a.csv")
    return RecordSource(folder / "a.csv", "label", COLUMNS, "who"), folder / "a.csv"


def arrow(folder, content):
    with pa.ipc.new_file(str(folder / "a.arrow"), content.schema) as writer:
        writer.write_table(content)
    return RecordSource(folder / "a.arrow", "label", COLUMNS, "who"), folder / "a.arrow"


def parquet(folder, content):
    pa.parquet.write_table(content, folder / "a.parquet")
    return RecordSource(f"{folder}/*.parquet", "label", COLUMNS, "who"), folder / "a.parquet"


def data_set(folder, content):
    _, file = parquet(folder, content)
    return RecordSource(pa.dataset.dataset(folder), "label", COLUMNS, "who"), file


def mapped(folder, content, changed="X"):
    np.save(folder / "X.npy", np.column_stack([content.column(name).to_numpy() for name in COLUMNS]))
    for name, column in (("y", "label"), ("who", "who")):
        np.save(folder / f"{name}.npy", np.array(content.column(column).to_pylist()))
    beside = {"label": str(folder / "y.npy"), "persons": str(folder / "who.npy")}
    return RecordSource(folder / "X.npy", **beside), folder / f"{changed}.npy"


def mapped_labels(folder, content):
    return mapped(folder, content, "y")


def mapped_persons(folder, content):
    return mapped(folder, content, "who")


FORMS = [csv, arrow, parquet, data_set, mapped, mapped_labels, mapped_persons]


def stream(source, engine=None):
    return streamed_records(source.open(), engine or Threads(1), np.array(CLASSES), None, (4,))


def rewrite(file):
    """As an editor does: as many bytes, and other ones; a clock that stands still is helped on."""
    before, content = file.stat().st_mtime_ns, bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before + 10, before + 10))


def replace(file):
    """As a job does that writes a file anew every night and keeps the old one's times."""
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.rename(file)


def append(file):
    with file.open("ab") as opened:
        opened.write(b"0,0,0,0,ill,ada\n")


CHANGES = [rewrite, replace, append, os.unlink]


def gate(book):
    return Gate(book, "clinic")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", FORMS)
def test_a_question_about_changed_files_is_refused_in_words_and_costs_nothing(form, change, tmp_path):
    source, file = form(tmp_path, RECORDS)
    book = open_ledger("memory:", {"clinic": Ceiling(1000)})
    holder = VoteHolder([Private(stream(source))], gate(book))
    change(file)
    with pytest.raises(TacitError, match=r"was changed, replaced or removed.*Nothing was charged"):
        holder.answer(ASK)
    assert book.balance("clinic").payments == 0


@pytest.mark.parametrize(("holder", "ask"), [(SumHolder, SUMS), (GradientHolder, GRADIENT)])
def test_every_streamed_question_is_refused_about_changed_files(holder, ask, tmp_path):
    source, file = csv(tmp_path, RECORDS)
    book = open_ledger("memory:", {"clinic": Ceiling(1000, delta="1/2")})
    ask = dataclasses.replace(ask, mechanism=DiscreteLaplaceNoise.for_epsilon(100, 2 * 10**5))
    own = holder([Private(stream(source))], gate(book))
    append(file)
    with pytest.raises(TacitError, match="Nothing was charged"):
        own.answer(ask)
    assert book.balance("clinic").payments == 0


class Changing(Threads):
    """A file is changed while it is counted."""

    def __init__(self, change, file):
        super().__init__(1)
        self.change, self.file = change, file

    def run(self, count, fragments):
        for each in super().run(count, fragments):
            self.change(self.file)
            yield each


@pytest.mark.parametrize("form", FORMS)
def test_files_that_are_changed_while_they_are_counted_give_the_empty_table(form, tmp_path, caplog):
    source, file = form(tmp_path, RECORDS)
    book = open_ledger("memory:", {"clinic": Ceiling(1000)})
    holder = VoteHolder([Private(stream(source, Changing(rewrite, file)))], gate(book))
    with caplog.at_level(logging.ERROR):
        release = holder.answer(ASK)
    # With that ε the noise is next to nothing.
    assert np.abs(release.value).max() <= 3 < in_memory("votes", RECORDS).max()
    assert "was changed, replaced or removed after it was opened" in caplog.text
    assert "the payment stands" in caplog.text


def test_persons_are_never_bounded_in_other_records_than_are_counted(tmp_path):
    """One person's records, of which one may count, were another's when the bound was found: all would count."""
    many = RECORDS.set_column(5, "who", [["ada"] * 300])
    each = RECORDS.set_column(5, "who", [[f"person {number:03}" for number in range(300)]])
    source, file = parquet(tmp_path, each)
    records, unit = stream(source), Unit.person("who", 1)
    records.total(TABLES["votes"], unit, SystemRandomness())
    pa.parquet.write_table(many, file)
    with pytest.raises(TacitError, match="was changed"):
        records.total(TABLES["votes"], unit, SystemRandomness())
    # Opened again they are what they are now.
    assert stream(source).total(TABLES["votes"], unit, SystemRandomness()).sum() <= 2


def test_what_does_not_change_the_content_of_a_file_is_no_change(tmp_path):
    source, file = csv(tmp_path, RECORDS)
    records = stream(source)
    (tmp_path / "backup").hardlink_to(file)
    file.chmod(0o600)
    file.read_bytes()
    (tmp_path / "another.csv").write_text("x")
    records.require_countable(TABLES["votes"])
    counted = records.total(TABLES["votes"], Unit(), SystemRandomness())
    assert np.array_equal(counted, in_memory("votes", RECORDS))


def test_a_file_that_is_not_there_is_not_the_one_that_was(tmp_path):
    assert FileState.of(tmp_path / "none").state is None
    (tmp_path / "none").write_text("")
    assert FileState.of(tmp_path / "none").state is not None


def test_a_data_set_in_memory_has_no_files_that_could_change():
    opened = RecordSource(pa.dataset.dataset(RECORDS), "label", COLUMNS).open()
    assert opened.opened == ()
    opened.require_unchanged("")
