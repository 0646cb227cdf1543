"""Pairs and items out of Redis Streams and Kafka, each exactly once.

address          where messages come from, as one text
messages         from the bytes of a message to what it asks for
source           what a stream must be able to do; redis_streams, kafka_topics: those there are
consumer         a batch after the other: read, change the index, acknowledge
running          until told to stop, with patience where a broker goes away
metrics          figures for Prometheus
"""
