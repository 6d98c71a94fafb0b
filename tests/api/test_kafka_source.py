"""Fields of a Kafka source: its address, its starting offsets, and no secret."""

import re

import pytest
from pydantic import ValidationError

from backfill_api.spec.sources.kafka import OPTIONS, KafkaSource

GIVEN = {"bootstrapServers": "broker-1:9092,broker-2:9092", "topic": "orders"}


def refusal(**fields):
    """Return the message of a rejected source."""
    with pytest.raises(ValidationError) as refused:
        KafkaSource.model_validate({**GIVEN, **fields})
    (error,) = refused.value.errors()
    return error["msg"]


class TestASourceThatIsATopic:
    """A cluster and the command line reject the same specs."""

    def test_a_source_reads_all_committed_records_by_default(self):
        """The default loses no record, and reads no record of an aborted transaction."""
        source = KafkaSource.model_validate(GIVEN)

        assert (source.isolation, source.starting_offsets, source.secret_ref) == ("ReadCommitted", "Earliest", None)
        assert source.label == "topic orders"

    @pytest.mark.parametrize(
        "text", ["broker", "broker:port", "a:1, b:2", "user:word@broker:9092", "kafka://broker:9092"]
    )
    def test_addresses_are_hosts_with_ports(self, text):
        """A message repeats no other address, because it may contain a password."""
        message = refusal(bootstrapServers=text)

        assert message == (
            "bootstrapServers: is not a list of host:port, with commas between them; write broker-1:9092,broker-2:9092"
        )

    def test_a_list_of_topics_is_refused(self):
        """A pattern or a list would be another source."""
        assert "topic: is not the name of a topic" in refusal(topic="orders,items")

    @pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.key.password", "ssl.truststore.location", "sasl.x"])
    def test_a_secret_in_a_spec_is_refused(self, name):
        """Every reader of the Backfill could read it; the message omits the value."""
        message = refusal(options={name: "hidden word"})

        assert "put " + name + " into a Secret" in message
        assert "hidden word" not in message

    @pytest.mark.parametrize("name", ["group.id", "auto.offset.reset", "isolation.level", "interceptor.classes", "x"])
    def test_an_option_that_selects_records_is_refused(self, name):
        """The job manages the offsets, and the driver runs no foreign code."""
        assert "may not be given; use one of " in refusal(options={name: "1"})

    @pytest.mark.parametrize("value", ["${dir:/etc/backfill-control:token}", "a${file:/x:y}b", "${"])
    def test_an_option_that_names_a_file_is_refused(self, value):
        """The client inserts the file's content if there is a Secret: the driver's token could reach a broker that the spec chooses."""
        message = refusal(options={"client.id": value})

        assert 'options["client.id"]: refers to a file with ${' in message
        assert value not in message or value == "${"

    def test_options_of_the_connection_are_accepted(self):
        """They are options of Kafka's own clients."""
        assert KafkaSource.model_validate({**GIVEN, "options": dict.fromkeys(OPTIONS, "1")}).options.keys() == OPTIONS

    @pytest.mark.parametrize("partition", ["01", "-1", "orders-0", "٣"])
    def test_partitions_are_numbers(self, partition):
        """Partitions are numbered from 0, and written as strings."""
        assert re.search(
            "partitionStartingOffsets.*: is no partition", refusal(partitionStartingOffsets={partition: 1})
        )
