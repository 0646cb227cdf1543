"""An index in Milvus, whose binary vectors and Hamming distance find codes: embedded in a file, or a cluster."""
