"""What a spec may say of a Kafka topic: where it is, where to begin, and no secret."""

import re

import pytest
from pydantic import ValidationError

from backfill_api.spec.sources.kafka import OPTIONS, KafkaSource

GIVEN = {"bootstrapServers": "broker-1:9092,broker-2:9092", "topic": "orders"}


def refusal(**given):
    """Return why a source is refused."""
    with pytest.raises(ValidationError) as refused:
        KafkaSource.model_validate({**GIVEN, **given})
    (error,) = refused.value.errors()
    return error["msg"]


class TestASourceThatIsATopic:
    """A cluster and this machine refuse the same."""

    def test_reads_all_committed_records_unless_it_is_told_otherwise(self):
        """The default loses nothing, and reads nothing that was taken back."""
        source = KafkaSource.model_validate(GIVEN)

        assert (source.isolation, source.starting_offsets, source.secret_ref) == ("ReadCommitted", "Earliest", None)
        assert source.label == "topic orders"

    @pytest.mark.parametrize(
        "text", ["broker", "broker:port", "a:1, b:2", "user:word@broker:9092", "kafka://broker:9092"]
    )
    def test_addresses_are_hosts_with_ports(self, text):
        """What else is refused is not repeated: it may hold a password."""
        said = refusal(bootstrapServers=text)

        assert said == (
            "bootstrapServers: is not a list of host:port, with commas between them; write broker-1:9092,broker-2:9092"
        )

    def test_one_topic_is_named(self):
        """A pattern or a list is another source."""
        assert "topic: is not the name of a topic" in refusal(topic="orders,items")

    @pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.key.password", "ssl.truststore.location", "sasl.x"])
    def test_a_secret_is_not_in_a_spec(self, name):
        """Everyone who may read a Backfill can read it; the value is not repeated."""
        said = refusal(options={name: "hidden word"})

        assert "put " + name + " into a Secret" in said
        assert "hidden word" not in said

    @pytest.mark.parametrize("name", ["group.id", "auto.offset.reset", "isolation.level", "interceptor.classes", "x"])
    def test_what_decides_which_records_are_read_is_no_option(self, name):
        """The offsets are the job's, and no code of others runs in the driver."""
        assert "may not be given; use one of " in refusal(options={name: "1"})

    @pytest.mark.parametrize("value", ["${dir:/etc/backfill-control:token}", "a${file:/x:y}b", "${"])
    def test_no_option_names_a_file(self, value):
        """Beside a Secret the client puts the file's words there: a token of the driver, for a broker of the spec's choice."""
        said = refusal(options={"client.id": value})

        assert 'options["client.id"]: refers to a file with ${' in said
        assert value not in said or value == "${"

    def test_options_of_the_connection_are_taken(self):
        """They are those of Kafka's own clients."""
        assert KafkaSource.model_validate({**GIVEN, "options": dict.fromkeys(OPTIONS, "1")}).options.keys() == OPTIONS

    @pytest.mark.parametrize("partition", ["01", "-1", "orders-0", "٣"])
    def test_partitions_are_numbers(self, partition):
        """A partition is counted from 0, as text."""
        assert re.search(
            "partitionStartingOffsets.*: is no partition", refusal(partitionStartingOffsets={partition: 1})
        )
