"""Logins at a ZooKeeper that knows users, and what it keeps for them."""

from collections.abc import Iterator

import pytest
import trio
import trio.testing

from ottla.coordination.digest_md5 import User
from ottla.coordination.tree import ConnectionLoss, LoginRefused, NotAllowed, SessionState
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.coordination.conftest import end_session
from tests.coordination.proxy import LossyProxy
from tests.peers.apache import Apache
from tests.peers.secured_zookeeper import ODD, PASSWORD, USER, SecuredZooKeeper
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
KAFKA = User(USER, PASSWORD, "here")


@pytest.fixture(scope="module", params=["2.7.2", "3.9.2"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """ZooKeeper 3.5, and 3.8."""
    folder = tmp_path_factory.mktemp("login")
    with Apache(folder) as apache:
        yield SecuredZooKeeper(apache, folder, request.param)


async def connect(place: str, user: User | None, **options: int) -> ZooKeeperTree:
    return await ZooKeeperTree.connect(
        place, user=user, secures=user is not None, connect_timeout_ms=options.get("connect_timeout_ms", 60_000)
    )


@pytest.mark.trio
async def test_nodes_are_kept_for_the_user(secured: SecuredZooKeeper) -> None:
    place = f"{secured.place}/kept"
    async with await connect(place, KAFKA) as tree:
        await tree.ensure("/config/users", "/brokers/topics", "/consumers")
        await tree.create("/config/users/alice", b"secret")
        await tree.create("/brokers/topics/t", b"{}")
        assert await tree.guarded(["/config/users", "/brokers/topics", "/consumers"]) == {}
    async with await connect(place, None) as nobody:
        assert await nobody.guarded(["/config/users", "/brokers/topics", "/consumers", "/no"]) == {
            "/config/users": "somebody else",
            "/brokers/topics": f"sasl:{USER}",
        }
        assert (await nobody.get("/brokers/topics/t")).data == b"{}"
        for denied in nobody.get("/config/users/alice"), nobody.set("/brokers/topics/t", b""), nobody.create("/x"):
            with pytest.raises(NotAllowed):
                await denied
        await nobody.create("/consumers/group")


@pytest.mark.trio
@pytest.mark.parametrize("name", ODD)
async def test_any_name_and_password(secured: SecuredZooKeeper, name: str) -> None:
    async with await connect(f"{secured.place}/odd-{list(ODD).index(name)}", User(name, ODD[name], "here")) as tree:
        await tree.create("/node", b"mine")
        assert await tree.guarded(["/node"]) == {}


@pytest.mark.trio
@pytest.mark.parametrize("user", [User(USER, "wrong", "here"), User("nobody", "wrong, too", "here")])
async def test_a_refused_login_ends_at_once(
    secured: SecuredZooKeeper, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LoginRefused) as refused:
        await connect(secured.place, user, connect_timeout_ms=2**31)
    assert str(refused.value) == f"ZooKeeper does not know the user {user.name} with this password"
    assert PASSWORD not in caplog.text
    assert "wrong" not in caplog.text


@pytest.mark.trio
async def test_a_zookeeper_without_users(zookeeper: str) -> None:
    with pytest.raises(LoginRefused, match="that ZooKeeper knows no users: it has no section Server"):
        await connect(zookeeper, KAFKA, connect_timeout_ms=2**31)


async def create(tree: ZooKeeperTree, path: str) -> None:
    """Makes a node as soon as ZooKeeper is there."""
    with trio.fail_after(PATIENCE_S):
        while True:
            try:
                await tree.create(path)
            except ConnectionLoss:
                await tree.wait_connected()
            else:
                return


async def begin_again(secured: SecuredZooKeeper, password: str = PASSWORD) -> None:
    await trio.to_thread.run_sync(secured.server.kill)
    await trio.to_thread.run_sync(secured.start, password)


@pytest.mark.trio
async def test_each_connection_is_logged_in(secured: SecuredZooKeeper) -> None:
    async with await connect(f"{secured.place}/again", KAFKA) as tree:
        await tree.ensure("/config/users")
        await begin_again(secured)
        await create(tree, "/config/users/later")
        assert await tree.guarded(["/config/users/later"]) == {}
    async with await connect(f"{secured.place}/again", None) as nobody:
        with pytest.raises(NotAllowed):
            await nobody.get("/config/users/later")


@pytest.mark.trio
async def test_a_server_that_dies_in_the_middle_of_a_login(
    secured: SecuredZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    with LossyProxy(("127.0.0.1", secured.port)) as proxy:
        # Lost are the last word of the first login, and the first word of the second.
        proxy.lose_after([2, 1, 10**9])
        async with await connect(f"127.0.0.1:{proxy.port}/dying", KAFKA) as tree:
            assert proxy.times_lost == 2
            await tree.create("/node")
            assert await tree.guarded(["/node"]) == {}
    assert "the connection ended at the login of the user kafka; is the password right? (here)" in caplog.text


@pytest.mark.trio
async def test_a_later_refusal_is_told_once_and_tried_again(
    secured: SecuredZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    async with await connect(f"{secured.place}/later", KAFKA) as tree:
        states: list[SessionState] = []
        tree.listen(states.append)
        await begin_again(secured, "another")
        refusals = "the login at ZooKeeper failed: ZooKeeper does not know the user kafka with this password (here)"
        with trio.fail_after(PATIENCE_S):
            while refusals not in caplog.text:
                await trio.testing.wait_all_tasks_blocked(0.05)
        assert tree.state is SessionState.SUSPENDED
        await begin_again(secured)
        await create(tree, "/node")
        assert SessionState.CLOSED not in states
        assert caplog.text.count(refusals) == 1


@pytest.mark.trio
async def test_a_session_after_one_that_expired_is_logged_in(secured: SecuredZooKeeper) -> None:
    async with await connect(f"{secured.place}/expired", KAFKA) as tree:
        await tree.ensure("/config/users")
        states: list[SessionState] = []
        tree.listen(states.append)
        before = tree.session_id
        await trio.to_thread.run_sync(end_session, secured.place, tree._client.client_id)
        with trio.fail_after(PATIENCE_S):
            while tree.session_id == before or tree.state is not SessionState.CONNECTED:
                await trio.testing.wait_all_tasks_blocked(0.05)
        assert SessionState.EXPIRED in states
        await create(tree, "/config/users/later")
        assert await tree.guarded(["/config/users/later"]) == {}
    async with await connect(f"{secured.place}/expired", None) as nobody:
        with pytest.raises(NotAllowed):
            await nobody.get("/config/users/later")
