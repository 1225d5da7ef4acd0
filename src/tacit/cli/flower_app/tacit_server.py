"""The coordinator's side."""

from tacit.exchange.flower_server import server_app
from tacit.experiment.federated_job import conduct

app = server_app(conduct)
