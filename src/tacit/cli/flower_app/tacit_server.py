"""The coordinator's side."""

from tacit.federation.flower.server import server_app
from tacit.runs.federation import conduct

app = server_app(conduct)
