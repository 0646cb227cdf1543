"""Pairs and items from Redis Streams and Kafka, each message applied exactly once.

address          where messages come from, as one text
messages         from the bytes of a message to what it asks for
source           the interface of a stream; redis_streams and kafka_topics implement it
consumer         one batch at a time: read, change the index, acknowledge
loop             runs a consumer until it is stopped; retries when a broker goes away
metrics          metrics for Prometheus
"""
