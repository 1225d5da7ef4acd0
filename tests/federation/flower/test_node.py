"""What a node's own process does beside Flower's: a run that ends on the way leaves nothing behind."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from flwr.common import ConfigRecord, Message, RecordDict
from flwr.common.constant import Status
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate.nodestate_factory import NodeStateFactory
from flwr.supernode.start_client_internal import _pull_and_store_message

from tacit.core.errors import InvalidInput
from tacit.federation.flower.node import discard_unfetched
from tacit.federation.flower.server import payload_of

RUN = 7


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """Flower makes messages in the name of the process's task."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, RUN)


class Late:
    """A node that fetches a question whose run ends on the way."""

    def __init__(self, ends_at):
        self.store = ObjectStoreFactory().store()
        self.state = NodeStateFactory(ObjectStoreFactory()).state()
        self.state.get_run = lambda _: SimpleNamespace(primary_task_type="flwr-clientapp", fab_hash="f" * 64)
        self.ends_at = ends_at
        content = RecordDict({"question": ConfigRecord({"words": "hello"})})
        self.message = Message(content, dst_node_id=1, message_type="query")
        self.message.metadata.__dict__["_message_id"] = self.message.object_id

    def called(self, what):
        def call(*_):
            if self.ends_at == what:
                raise RunNotRunningException
            return b""

        return call

    def fetch(self, pull):
        return pull(
            state=self.state, object_store=self.store, node_config={}, trusted_entities=None,
            receive=lambda: (self.message, get_object_tree(self.message)), get_run=None, get_fab=None,
            pull_object=self.called("pull"), confirm_message_received=self.called("confirm"),
        )  # fmt: skip

    @property
    def waiting(self):
        """Tasks for which a process would be started."""
        return [task for task in self.state.get_tasks() if task.status.status != Status.FINISHED]


def test_flower_leaves_a_process_that_waits_for_good():
    node = Late("pull")
    assert node.fetch(_pull_and_store_message) is None
    assert len(node.waiting) == 1
    assert len(node.state.msg_store) == 1


@pytest.mark.parametrize("ends_at", ["pull", "confirm"])
def test_a_run_that_ends_on_the_way_leaves_nothing(ends_at):
    node = Late(ends_at)
    # What comes is not what was announced, so that only the end of the run can stop it.
    node.store.verify = False
    assert node.fetch(discard_unfetched(_pull_and_store_message)) is None
    assert node.waiting == []
    assert node.state.msg_store == {}
    assert len(node.store) == 0


def test_a_message_that_comes_is_kept():
    node = Late("never")
    node.store.verify = False
    assert node.fetch(discard_unfetched(_pull_and_store_message)) == RUN
    assert len(node.waiting) == 1


def test_a_message_without_the_one_record_is_not_read():
    for content in (RecordDict(), RecordDict({"tacit": ConfigRecord({"letter": "words"})})):
        with pytest.raises(InvalidInput):
            payload_of(Message(content, 1, "query.answer"))
