"""What plugin/worker relies on, observed on livekit-agents 1.8.9 and livekit-server 1.13.5."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path

import pytest
from livekit import api
from livekit.agents import AgentServer, AutoSubscribe, JobContext, JobExecutorType, JobRequest
from livekit.agents.ipc import job_proc_lazy_main, job_thread_executor
from livekit.agents.worker import AgentServer as DefinedThere
from realtime_venus.plugin.worker import adapter

from ..kit.livekit_guest import agent_of, agents, environment_kept, guest
from ..kit.livekit_server import KEY, SECRET, LiveKitServer

__all__ = ["environment_kept"]

pytestmark = pytest.mark.usefixtures("environment_kept", "native_sockets_closed")

VERSION = metadata.version("livekit-agents")
NEWS = f"livekit-agents {VERSION} does otherwise than 1.8.9 did: look at plugin/worker/adapter.py"
SERVER_NEWS = "livekit-server does otherwise than 1.13.5 did: look at plugin/worker"
SOON_S = 30.0


async def stay(context: JobContext) -> None:
    await context.connect(auto_subscribe=AutoSubscribe.SUBSCRIBE_NONE)


async def accept(request: JobRequest) -> None:
    await request.accept(name="Clerk", attributes={"venus.refused": "why"})


@asynccontextmanager
async def working(
    server: LiveKitServer,
    entry: Callable[[JobContext], Awaitable[None]] = stay,
    on_request: Callable[[JobRequest], Awaitable[None]] = accept,
    load: Callable[[], float] = lambda: 0.0,
) -> AsyncGenerator[AgentServer]:
    """A registered worker of the library itself."""
    worker = AgentServer(
        job_executor_type=JobExecutorType.THREAD,
        load_fnc=load,
        load_threshold=1.0,
        num_idle_processes=0,
        initialize_process_timeout=60.0,
        ws_url=server.url,
        api_key=KEY,
        api_secret=SECRET,
        host="127.0.0.1",
        port=0,
    )
    worker.rtc_session(entry, on_request=on_request)
    registered = asyncio.Event()

    def noted(*_: object) -> None:
        registered.set()

    on = getattr(worker, "on")  # noqa: B009 - partially untyped in the library
    on("worker_registered", noted)
    serving = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(SOON_S):
            await registered.wait()
        yield worker
    finally:
        await worker.aclose()
        await serving


async def dispatched(server: LiveKitServer, room: str) -> None:
    async with server.api() as client:
        await client.agent_dispatch.create_dispatch(api.CreateAgentDispatchRequest(room=room))


async def logged(server: LiveKitServer, text: str) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            if text in server.log.read_text():
                return
            await asyncio.sleep(0.05)


class Refuser:
    """Says no to every request and remembers which jobs it was asked to take."""

    def __init__(self, *, terminate: bool) -> None:
        self.asked: list[str] = []
        self._terminate = terminate
        self._news = asyncio.Event()

    async def __call__(self, request: JobRequest) -> None:
        self.asked.append(request.id)
        self._news.set()
        await request.reject(terminate=self._terminate)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(SOON_S):
            while len(self.asked) < times:
                self._news.clear()
                await self._news.wait()


# -- the names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("_get_effective_load", ["self"]),
        ("_is_available", ["self"]),
        ("_update_worker_status", ["self"]),
        ("_handle_termination", ["self", "msg"]),
    ],
)
def test_what_is_replaced_or_called_is_there(name: str, parameters: list[str]) -> None:
    method: Callable[..., object] = getattr(DefinedThere, name)
    assert list(inspect.signature(method).parameters) == parameters, NEWS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_answer_availability", r"if not self\._is_available\(\)[\s\S]*self\._request_fnc\(job_req\)"),
        ("_update_worker_status", r"effective_load = self\._get_effective_load\(\)"),
        ("_update_worker_status", r"UpdateWorkerStatus\(load=self\._worker_load, status=status"),
        ("_connection_task", r"self\._connecting = True[\s\S]*self\._connecting = False"),
        ("_connection_task", r"self\._connection_failed = True\s+raise RuntimeError"),
        ("__init__", r'self\._id = "unregistered"'),
    ],
)
def test_what_is_replaced_or_read_is_used_as_before(name: str, expected: str) -> None:
    source = inspect.getsource(getattr(DefinedThere, name))
    assert re.search(expected, source), NEWS


def test_the_entry_point_is_cancelled_late_and_told_nothing_before() -> None:
    """Why a termination is caught where it arrives."""
    source = inspect.getsource(getattr(job_proc_lazy_main, "_JobProc"))  # noqa: B009 - private
    assert "wait_for(asyncio.shield(job_entry_task), timeout=15)" in source, NEWS


def test_a_job_ends_only_when_its_shutdown_callbacks_have() -> None:
    """Why a connection that comes too late is undone in one: after them the loop of the job is gone."""
    source = inspect.getsource(getattr(job_proc_lazy_main, "_JobProc"))  # noqa: B009 - private
    assert re.search(r"_room\.disconnect\(\)[\s\S]*_shutdown_callbacks:[\s\S]*gather\(\*shutdown_tasks\)", source), NEWS


def test_a_thread_that_does_not_end_is_waited_for_without_a_deadline() -> None:
    """Why closing has a deadline of ours."""
    source = inspect.getsource(job_thread_executor.ThreadJobExecutor.aclose)
    assert source.rstrip().endswith("await asyncio.shield(self._main_atask)"), NEWS


def test_the_librarys_own_detectors_are_left_out() -> None:
    """Else every worker would load 250 MB that nothing here asks for."""
    assert issubclass(adapter.SlotServer, AgentServer)
    assert os.environ["LIVEKIT_AGENTS_PRELOAD_LOCAL_INFERENCE"] == "0"
    source = Path(inspect.getfile(job_proc_lazy_main)).with_name("_preload.py").read_text()
    assert 'ENV_PRELOAD_LOCAL_INFERENCE = "LIVEKIT_AGENTS_PRELOAD_LOCAL_INFERENCE"' in source, NEWS
    assert re.search(r"value\.strip\(\)\.lower\(\) in _FALSY:\s+return False", source), NEWS


# -- the behaviour --------------------------------------------------------------------------------------------------


async def test_a_job_has_a_thread_and_a_loop_of_its_own_and_shares_our_objects(livekit_server: LiveKitServer) -> None:
    met: dict[str, object] = {}
    over = threading.Event()

    async def entry(context: JobContext) -> None:
        met.update(thread=threading.current_thread(), loop=asyncio.get_running_loop(), room=context.room)
        await stay(context)
        over.set()

    async with working(livekit_server, entry), guest(livekit_server, "lobby") as user:
        agent = await agent_of(user)
        assert await asyncio.to_thread(over.wait, SOON_S)
        assert met["thread"] is not threading.main_thread(), NEWS
        assert met["loop"] is not asyncio.get_running_loop(), NEWS
        # The entry point has returned, and the agent is still there: only shutdown() ends a job.
        assert (agent.name, agent.attributes["venus.refused"]) == ("Clerk", "why"), NEWS
        assert agents(user), NEWS


async def test_who_reports_the_target_load_is_passed_over_though_it_is_available(
    livekit_server: LiveKitServer,
) -> None:
    """Why the load that is reported stays below it while there is a place."""
    refuser = Refuser(terminate=True)
    load = 0.75
    async with working(livekit_server, on_request=refuser, load=lambda: load) as worker:
        report: Callable[[], Awaitable[None]] = getattr(worker, "_update_worker_status")  # noqa: B009 - private
        await report()
        async with guest(livekit_server, "lobby"):
            await logged(livekit_server, "no servers available")
            assert refuser.asked == [], SERVER_NEWS
            load = 0.65
            # The load is asked for twice a second, and reported from then on.
            async with asyncio.timeout(SOON_S):
                while not refuser.asked:
                    await asyncio.sleep(0.6)
                    await report()
                    await dispatched(livekit_server, "lobby")


async def test_a_refused_job_is_offered_to_the_other_worker(livekit_server: LiveKitServer) -> None:
    refuser = Refuser(terminate=False)
    async with (
        working(livekit_server, on_request=refuser),
        working(livekit_server, on_request=refuser),
        guest(livekit_server, "lobby"),
    ):
        await logged(livekit_server, "failed to send job request")
        assert len(refuser.asked) == 2, SERVER_NEWS
        assert len(set(refuser.asked)) == 1, SERVER_NEWS


async def test_a_terminated_job_is_offered_to_nobody_else(livekit_server: LiveKitServer) -> None:
    refuser = Refuser(terminate=True)
    async with (
        working(livekit_server, on_request=refuser),
        working(livekit_server, on_request=refuser),
        guest(livekit_server, "lobby"),
    ):
        await refuser.until_asked(1)
        await dispatched(livekit_server, "lobby")
        await refuser.until_asked(2)
        assert len(set(refuser.asked)) == 2, SERVER_NEWS
