"""A broker that is away, or refuses a connection, is named with the field of the spec."""

import pytest
from support.kafka.broker import PASSWORD, USER
from support.kafka.topics import send_all

from backfill_core.errors import InvalidSpecError, PermissionDeniedError, TransientError
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.jvm.gateway import java_frame

QUICK = {"default.api.timeout.ms": "2000", "request.timeout.ms": "1500"}


class TestABrokerThatDoesNotLetUsIn:
    """The message names the address and the field, and no message contains a secret."""

    def test_an_unreachable_broker_is_tried_again(self, opened, broker):
        """It may come back. The client has already retried with growing pauses."""
        away = opened("topic", bootstrapServers="127.0.0.1:1", options=QUICK)
        nameless = opened("topic", bootstrapServers="no-such-host.invalid:9092", options=QUICK)

        with pytest.raises(TransientError, match=r"127\.0\.0\.1:1"):
            away.head()
        with pytest.raises(TransientError, match=r"no-such-host\.invalid:9092"):
            nameless.head()

    def test_credentials_are_used_and_never_shown(self, topics, opened, broker, tmp_path):
        """A Secret has the user and the password. Neither is in a plan, in a message or in the settings of Spark."""
        topic = topics.create()
        send_all(broker.address, topic, [b"a"])
        options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **QUICK}
        given = {
            "bootstrapServers": broker.password_address,
            "options": options,
            "secretRef": "kafka",
            "folder": tmp_path,
        }
        (tmp_path / "username").write_text(USER)
        (tmp_path / "password").write_text(PASSWORD)
        source = opened(topic, **given)
        frame = source.read_offsets([OffsetRange("0", 0, 1)])

        assert source.head().position == {"0": 1}
        assert [(row.partition, row.offset) for row in frame.collect()] == [(0, 0)]
        assert PASSWORD not in java_frame(frame).queryExecution().toString()

        (tmp_path / "password").write_text("a wrong word")
        with pytest.raises(PermissionDeniedError, match="does not accept the credentials") as refused:
            opened(topic, **given).head()
        assert broker.password_address in refused.value.message
        assert "a wrong word" not in str(refused.value)
        (tmp_path / "sasl.jaas.config").write_text("no jaas; with a wrong word")
        with pytest.raises(
            InvalidSpecError, match=r"sasl\.jaas\.config is not a valid login configuration"
        ) as malformed:
            opened(topic, **given).head()
        assert "wrong word" not in str(malformed.value)

    def test_tls_needs_a_trusted_certificate_of_the_host(self, topics, opened, broker, tmp_path):
        """A certificate for another name is refused, and so is one that is not trusted."""
        topic = topics.create()
        options = {"security.protocol": "SSL", **QUICK}
        given = {"options": options, "secretRef": "kafka", "folder": tmp_path}
        (tmp_path / "ssl.truststore.certificates").write_text(broker.certificate.read_text())

        assert opened(topic, bootstrapServers=broker.tls_address, **given).head().position == {"0": 0}
        with pytest.raises(InvalidSpecError, match=r"no trusted connection to localhost:.*localhost found"):
            opened(topic, bootstrapServers=broker.misnamed_tls_address, **given).head()
        with pytest.raises(InvalidSpecError, match="no trusted connection to 127"):
            opened(topic, bootstrapServers=broker.tls_address, options=options).head()

    def test_a_missing_secret_is_named(self, opened, tmp_path):
        """A user who starts a driver by hand learns the folder of the keys and their valid names."""
        with pytest.raises(InvalidSpecError, match=r"Secret kafka.*Set BACKFILL_SOURCE_SECRET_DIR"):
            opened("topic", secretRef="kafka")
        (tmp_path / "passwrd").write_text("secret")
        with pytest.raises(InvalidSpecError, match="the key passwrd is unknown"):
            opened("topic", secretRef="kafka", folder=tmp_path)
