"""PrivateKT: in each round holders label a few queries with local models, and a global model learns from the labels."""
