"""A full disk under a lease: producers are told that the disk is full, after which they try again."""

from pathlib import Path

import pytest

from ottla.errors import StorageError
from tests.peers.disks import small_tmpfs
from tests.support.client import Client, batch, values
from tests.support.directories import fill
from tests.support.leased import started

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

VALUE = b"x" * 10_000


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_every_answer_is_success_or_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamps: str, is_idempotent: bool
) -> None:
    with small_tmpfs(tmp_path / "small", 4) as small:
        settings = {"log.dirs": f"{tmp_path / 'a'},{small / 'b'}", "log.message.timestamp.type": timestamps}
        async with started(tmp_path, monkeypatch, **settings) as one:
            await one.create("t", 2)
            (index,) = [index for index in range(2) if (small / "b" / f"t-{index}").is_dir()]
            partition = one.broker.replicas.partitions["t", index]
            stored = 0

            def produced(client: Client) -> int:
                nonlocal stored
                options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": stored} if is_idempotent else {}
                answer = client.produce("t", batch(VALUE, **options), partition=index, acks=1)
                code = answer.responses[0].partitions[0].error_code
                stored += code == 0
                return code

            assert await one.talk(produced) == 0
            assert partition.lease is not None
            filler = fill(small)
            codes = await one.talk(lambda client: [produced(client) for _ in range(20)])
            assert partition.lease is not None
            assert StorageError.code in codes
            assert set(codes) <= {0, StorageError.code}
            filler.unlink()
            assert await one.talk(lambda client: [produced(client) for _ in range(3)]) == [0, 0, 0]
            read = await one.talk(lambda client: values(client.fetch("t", 0, partition=index)))
            assert read == [VALUE] * len(read)
            assert partition.log.high_watermark == stored
