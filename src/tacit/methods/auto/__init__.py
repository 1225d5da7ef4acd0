"""The default method: asks for votes, class sums or both, as public data and earlier releases suggest."""
