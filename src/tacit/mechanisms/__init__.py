"""One mechanism per file, by who is trusted: exact sampler, exact law for small domains, spend, what it tolerates."""
