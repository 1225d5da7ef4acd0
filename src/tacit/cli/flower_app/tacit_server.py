"""The coordinator's side."""

from tacit.federation.flower.server import server_app
from tacit.runs.federation import conduct

coordinator_app = server_app(conduct)
