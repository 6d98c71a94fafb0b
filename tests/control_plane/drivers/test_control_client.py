"""The operator's client of the control server, tested with a driver double: trust, time-outs, accepted responses."""

import asyncio
import contextlib
import os
import select

import pytest
from support.drivers.driver_double import DriverDouble, server_context

from backfill_api.wire import Command, CommandRequest, PauseCommand
from backfill_operator.drivers.certificates import BATCH, CredentialPool, NoCertificateError, fingerprint, mint
from backfill_operator.drivers.control_client import ControlClient, DriverAddress, DriverUnreachableError

PAUSE = Command(type="Pause", pause=PauseCommand(scope="All"))
PATIENT_S = 60.0
"""Time limit of a client whose driver answers: a handshake takes seconds on a busy machine."""


@contextlib.asynccontextmanager
async def driver(*, timeout_s=PATIENT_S, **options):
    """Yield a driver double with its own credentials, a client, and the driver's address."""
    [credentials] = await mint(1)
    double = DriverDouble(token=credentials.token, **options)
    await double.start(ssl_context=server_context(credentials.certificate, credentials.key))
    address = DriverAddress(double.attempt, double.url, credentials.token, fingerprint(credentials.certificate))
    try:
        async with ControlClient(timeout_s) as client:
            yield double, client, address
    finally:
        await double.stop()


def pause(revision, attempt=1):
    return CommandRequest(attempt=attempt, revision=revision, command=PAUSE)


class TestWhomItTrusts:
    async def test_client_trusts_the_driver_of_the_attempt(self):
        """Its certificate is pinned, and no other property is checked."""
        async with driver() as (double, client, address):
            assert (await client.progress(address)).rows_done == double.progress.rows_done

    async def test_client_sends_no_token_to_another_server(self):
        """A process that has taken over the address must not receive the token."""
        async with driver() as (_, client, address), driver() as (impostor, _, elsewhere):
            wrong = DriverAddress(1, elsewhere.url, address.token, address.fingerprint)
            with pytest.raises(DriverUnreachableError, match="not the driver"):
                await client.progress(wrong)
            with pytest.raises(DriverUnreachableError, match="not the driver"):
                await client.command(wrong, pause(1), 0)
            assert impostor.seen == []

    async def test_driver_that_rejects_the_token_is_unreachable(self):
        """A wrong token gets an answer without information."""
        async with driver() as (_, client, address):
            with pytest.raises(DriverUnreachableError, match="401"):
                await client.progress(DriverAddress(1, address.url, "wrong", address.fingerprint))

    async def test_credentials_are_not_shown(self):
        """More users read logs than Secrets."""
        [credentials] = await mint(1)
        address = DriverAddress(1, "https://x", credentials.token, fingerprint(credentials.certificate))

        assert credentials.token not in repr(credentials) + repr(address)
        assert "PRIVATE" not in repr(credentials)

    async def test_two_attempts_have_different_credentials(self):
        """Otherwise one driver could impersonate another."""
        one, other = await mint(2)

        assert len({one.token, other.token}) == len({one.key, other.key}) == 2
        assert fingerprint(one.certificate) != fingerprint(other.certificate)


class TestTheCredentialPool:
    async def test_credentials_are_issued_once(self):
        """They are created in batches."""
        given = CredentialPool()
        taken = await asyncio.gather(*(given.take() for _ in range(BATCH + 3)))
        assert (
            len({credentials.token for credentials in taken})
            == len({credentials.key for credentials in taken})
            == BATCH + 3
        )

    async def test_missing_openssl_is_reported(self, monkeypatch):
        """A launch without credentials is refused with the reason."""
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(NoCertificateError, match="openssl"):
            await mint(1)

    async def test_openssl_that_does_not_end_is_killed(self, monkeypatch, tmp_path):
        """All launches wait for it: a refused launch is retried, a hanging one is not."""
        endless = tmp_path / "openssl"
        pipe = tmp_path / "held"
        os.mkfifo(pipe)
        endless.write_text(f"#!/bin/sh\nexec sleep 600 > {pipe}\n")
        endless.chmod(0o700)
        held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        with pytest.raises(NoCertificateError, match="did not end"):
            await mint(1, within_s=1.0)

        assert closed(held), "it still runs"
        os.close(held)


def closed(pipe):
    """Wait until no process can write to a pipe; return whether that is so."""
    with contextlib.suppress(BlockingIOError):
        return os.read(pipe, 1) == b""
    return bool(select.select([pipe], [], [], PATIENT_S)[0])


class TestACommand:
    async def test_command_is_acknowledged_after_its_barrier(self):
        """The acknowledgement contains the epoch from which the command applies."""
        async with driver() as (double, client, address):
            ack = await client.command(address, pause(1), 5)

        assert (ack.outcome, ack.revision, double.progress.paused) == ("Applied", 1, "All")
        assert ack.epoch > 1

    async def test_command_is_pending_without_a_commit(self):
        """A time-out is not a refusal."""
        async with driver(silent=True) as (double, client, address):
            ack = await client.command(address, pause(1), 0.05)

        assert (ack.outcome, len(double.seen)) == ("Pending", 1)

    async def test_command_to_an_older_attempt_is_refused_by_the_driver(self):
        """The refusal is a valid answer, although its HTTP status is a conflict."""
        async with driver(attempt=2) as (double, client, address):
            ack = await client.command(address, pause(1, attempt=1), 0)

        assert (ack.outcome, double.seen) == ("WrongAttempt", [])

    async def test_acknowledgement_can_be_read_later(self):
        """A lost answer can be read again."""
        async with driver() as (_, client, address):
            await client.command(address, pause(1), 5)
            await client.command(address, pause(2), 5)
            assert [ack.revision for ack in await client.acks(address, after=1)] == [2]


class TestWhatItBelieves:
    async def test_late_answer_is_unreachable(self):
        """An unresponsive driver must not delay the other drivers."""
        async with driver(timeout_s=0.1) as (double, client, address):
            double.unresponsive = True
            with pytest.raises(DriverUnreachableError):
                await client.progress(address)

    async def test_missing_driver_is_unreachable(self):
        """Its pod is gone, so no server listens."""
        async with driver() as (double, client, address):
            await double.stop()
            with pytest.raises(DriverUnreachableError):
                await client.progress(address)

    async def test_fields_of_a_later_version_are_ignored(self):
        """During an upgrade, drivers may be newer than the operator."""

        class Later(DriverDouble):
            async def _route(self, *request):
                status, kind, body, keep = await super()._route(*request)
                return status, kind, body.replace(b'"revision"', b'"colour": "red", "revision"'), keep

        [credentials] = await mint(1)
        double = Later(token=credentials.token)
        await double.start(ssl_context=server_context(credentials.certificate, credentials.key))
        address = DriverAddress(1, double.url, credentials.token, fingerprint(credentials.certificate))
        async with ControlClient(PATIENT_S) as client:
            assert (await client.progress(address)).rows_total == 4000
            assert (await client.command(address, pause(1), 5)).outcome == "Applied"
            assert [ack.revision for ack in await client.acks(address)] == [1]
        await double.stop()

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b"null", b"{", b'{"percent": "many"}', b"\xff\xfe", b"1" * 2_000_000, b"[" * 500_000],
        ids=["empty", "list", "null", "cut", "wrong type", "no text", "too long", "too deep"],
    )  # fmt: skip
    async def test_invalid_answer_is_unreachable(self, body):
        """The operator continues after any response of a compromised driver."""

        class Liar(DriverDouble):
            async def _route(self, *_):
                return 200, "application/json", body, True

        [credentials] = await mint(1)
        liar = Liar(token=credentials.token)
        await liar.start(ssl_context=server_context(credentials.certificate, credentials.key))
        address = DriverAddress(1, liar.url, credentials.token, fingerprint(credentials.certificate))
        async with ControlClient(PATIENT_S) as client:
            with pytest.raises(DriverUnreachableError):
                await client.progress(address)
            with pytest.raises(DriverUnreachableError):
                await client.command(address, pause(1), 0)
        await liar.stop()

    async def test_many_drivers_answer_at_once(self):
        """The answer of one driver does not delay that of another."""
        async with contextlib.AsyncExitStack() as stack:
            doubles = [await stack.enter_async_context(driver()) for _ in range(10)]
            client = doubles[0][1]
            looks = await asyncio.gather(*(client.progress(address) for _, _, address in doubles))

        assert len(looks) == 10
