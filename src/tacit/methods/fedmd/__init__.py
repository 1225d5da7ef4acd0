"""FedMD: parties with models of different kinds form a consensus on predictions for public samples."""
