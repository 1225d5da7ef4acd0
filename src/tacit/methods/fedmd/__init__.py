"""FedMD: parties with models of different kinds agree on predictions for public samples. One folder, three sides."""
