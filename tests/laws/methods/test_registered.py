"""A registered method is tried by all laws: in one process, and over nodes in every trust model that it names."""

import pytest

from tacit.methods.registry import METHODS
from tests.laws.methods.adapters import ADAPTERS


@pytest.mark.parametrize("federated", [False, True])
def test_every_registered_method_has_an_adapter(federated):
    assert {each.options.name for each in ADAPTERS.values() if each.federated == federated} == set(METHODS)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda each: each.name)
def test_every_trust_model_of_a_method_over_nodes_has_an_adapter(method):
    tried = {each.trust for each in ADAPTERS.values() if each.federated and each.options.name == method.name}
    assert tried == set(method.over_nodes)
