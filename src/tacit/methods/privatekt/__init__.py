"""PrivateKT: holders answer a few questions a round with their local models, and the answers teach a global one."""
