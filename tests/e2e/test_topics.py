"""A real broker on this machine, outside the node: the two examples of topics deliver each record once, new records included."""

import itertools
import json
import threading
from pathlib import Path

import pytest
from support.kafka.broker import PASSWORD, USER, running_broker
from support.kafka.topics import Topics, producing, transacting
from support.node.real_job import LAKE, MOUNT, delete_all, example, for_pods
from support.tables import oracle

PARTITIONS = 3
HISTORY = 24_000
"""Records of each partition before the job: half a minute at the limit."""

LIMIT = 2000
SECRET = "kafka-reader"
CUSTOMERS = 300
UNREADABLE = b"no JSON"


@pytest.fixture(scope="module")
def broker(real_node, tmp_path_factory):
    """A broker that pods reach."""
    with running_broker(tmp_path_factory.mktemp("broker"), real_node.address_of_this_machine()) as running:
        yield running


class Producer:
    """Writes to each partition until `end`: plain records, and transactions of which every other one aborts."""

    EVERY_S = 0.2

    def __init__(self, address, topic):
        self._address, self._topic = address, topic
        self._over = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self):
        try:
            with producing(self._address) as send, transacting(self._address) as transaction:
                for number in itertools.count():
                    for partition in range(PARTITIONS):
                        send(self._topic, event(number), key=b"live", partition=partition)
                    with transaction(abort=number % 2 == 1) as send_within:
                        send_within(self._topic, event(number), key=b"transaction", partition=number % PARTITIONS)
                    if self._over.wait(self.EVERY_S):
                        return
        except Exception as error:
            self._failure = error

    def end(self):
        self._over.set()
        self._thread.join(60)
        assert self._failure is None, self._failure


def event(number):
    """Return a record's value, in the format that the example parses."""
    return b'{"kind": "paid", "amount": %d}' % number


def with_password(node, address):
    """Return the example with a Secret; neither the spec nor a log contains the password."""
    node.keep_secret(SECRET, {"username": USER, "password": PASSWORD}, node.restricted)
    backfill = for_pods(example("events-kafka.yaml"), instances=1)
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    backfill["spec"]["source"]["kafka"] |= {"bootstrapServers": address, "options": options, "secretRef": SECRET}
    backfill["spec"] |= {"throttle": {"rowsPerSecond": LIMIT}, "backoff": {"initialSeconds": 1}, "verify": "Final"}
    return backfill


def held(job):
    """Return partition and offset of each row of the target."""
    return oracle.columns_of(str(job.target), "partition", "offset")


def make_customers(topics):
    """Make the topic of customers: some move, some are deleted, and the last record of two is unreadable for every parser."""
    topics.create("customers", PARTITIONS, {"cleanup.policy": "compact"})
    with producing(topics.address) as send:
        for city, every in (("here", 1), ("there", 3), (None, 5)):
            for number in range(0, CUSTOMERS, every):
                value = None if city is None else json.dumps({"name": f"customer {number}", "city": city}).encode()
                send("customers", value, key=b"%d" % number, partition=number % PARTITIONS)
        for number in (1, 3):
            send("customers", UNREADABLE, key=b"%d" % number, partition=number % PARTITIONS)


def last_of_each(topics):
    """Return the rows that the records of customers leave, as an independent reader finds them."""
    rows = {}
    for _, record in sorted(topics.committed("customers").items()):
        if record.value is None:
            rows.pop(record.key.decode(), None)
        elif record.value != UNREADABLE:
            rows[record.key.decode()] = json.loads(record.value)
    return rows


def of_customers(address):
    """Return the example unchanged, except for the address of the broker."""
    backfill = for_pods(example("customers-kafka.yaml"))
    backfill["spec"]["source"]["kafka"]["bootstrapServers"] = address
    return backfill


def is_a_table_of(topics, job):
    """Assert that the target holds the last record of each customer, and that each unreadable record is kept once."""
    rows = oracle.columns_of(str(job.target), "customer_id", "customer")
    assert len(rows) == len(dict(rows)), "a customer has two rows"
    assert dict(rows) == last_of_each(topics)
    bad = LAKE / Path(job.backfill["spec"]["source"]["kafka"]["quarantinePath"]).relative_to(MOUNT)
    assert sorted(oracle.columns_of(str(bad), "key", "value")) == [(b"1", UNREADABLE), (b"3", UNREADABLE)]


@pytest.mark.smoke
def test_each_record_of_a_topic_arrives_once(node, lake, apply, broker, request):
    """History is read at a limit with new records behind it, with a password; the driver is killed; an independent reader counts.

    Meanwhile the other example makes a table of the last records of another topic.
    """
    topics = Topics(broker.address)
    make_customers(topics)
    topics.create("events", PARTITIONS)
    with producing(broker.address) as send:
        for number, partition in itertools.product(range(HISTORY), range(PARTITIONS)):
            send("events", event(number), key=b"history", partition=partition)
    producer = Producer(broker.address, "events")
    request.addfinalizer(producer.end)
    job = apply(with_password(node, broker.password_address))
    customers = apply(of_customers(broker.address))

    job.until("records of before the job, and of after it", lambda: len({row[1] >= HISTORY for row in held(job)}) == 2)
    assert job.status()["progress"]["rowsDone"] < HISTORY * PARTITIONS, "history ended too soon to show it"
    job.outlives(job.kill_pod)

    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=0)
    producer.end()
    rows = held(job)
    ends = dict.fromkeys(range(PARTITIONS), -1) | dict(sorted(rows))
    expected = {place for place in topics.committed("events") if place[1] <= ends[place[0]]}
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert min(ends.values()) >= HISTORY
    assert status["receipt"]["mismatches"] == 0
    logs = node.operator_log() + job.kubectl("logs", "--selector=backfill.dev/role=driver", "--tail=-1", check=False)
    assert PASSWORD not in logs + job.kubectl("get", "backfills,pods,configmaps", "-o", "yaml")

    customers.until_complete(attempts=1, failures=0)
    is_a_table_of(topics, customers)
    delete_all([job, customers])
