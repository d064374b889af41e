"""Two hosts on one machine, to test faults between hosts. Each host is a set of namespaces with its own name, memory and
two links.

Needs root, `ip`, `nsenter` and `unshare`. Run as a program, the module exits with 0 if it can create hosts. mpirun runs
outside of both hosts, reaches them by the first link, and starts ranks that communicate over the second link. A file
maps both host names to addresses for every process. Without it, mpirun would wait for minutes for a name server.
"""

import os
import re
import shlex
import socket
import subprocess
import tempfile
from pathlib import Path

CONTROL, MESSAGES = "10.77.0", "10.78.0"  # networks of the two links


class TwoHosts:
    def __enter__(self):
        self._number = os.getpid()
        self._directory = tempfile.TemporaryDirectory(prefix="carillon-hosts-")
        folder = Path(self._directory.name)
        names = folder / "hosts"
        known = f"127.0.0.1 localhost {socket.gethostname()}\n"
        names.write_text(known + "".join(f"{CONTROL}.{host} n{host}\n" for host in (1, 2)))
        # Prefix of commands that run outside of both hosts and need the hosts' names.
        self.naming = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                       'mount --bind "$0" /etc/hosts; exec "$@"', str(names)]  # fmt: skip
        self._agent = folder / "agent"
        self._agent.write_text(
            "#!/bin/sh\n"
            "# agent HOST COMMAND...: mpirun starts its daemons with this script\n"
            "host=$1; shift\n"
            f'exec nsenter --net=/run/netns/car{self._number}-"${{host#n}}" unshare --uts --mount --propagation private '
            'sh -c "hostname $host; mount -t tmpfs -o mode=1777 shm /dev/shm; '
            f'mount --bind {shlex.quote(str(names))} /etc/hosts; $*"\n'
        )
        self._agent.chmod(0o700)
        _remove_leftovers()
        try:
            for host in (1, 2):
                _ip("netns", "add", self._space(host))
                _ip("-n", self._space(host), "link", "set", "lo", "up")
            for link, network in enumerate((CONTROL, MESSAGES)):
                self._connect(link, network)
            self._await_links()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise OSError(f"no hosts: {shlex.join(error.cmd)}: {error.stderr.strip()}") from error
        return self

    def __exit__(self, *_):
        for link in range(2):
            for host in (1, 2):
                _ip("link", "delete", self._end(link, host), check=False)
            _ip("link", "delete", self._bridge(link), check=False)
        for host in (1, 2):
            _ip("netns", "delete", self._space(host), check=False)
        self._directory.cleanup()

    def host_file(self, slots):
        """Returns the path of a host file in which each host has this number of slots."""
        path = Path(self._directory.name) / "hostfile"
        path.write_text(f"# two hosts\nn1 slots={slots}\nn2 slots={slots}\n")
        return path

    def environment(self):
        """Returns the environment of an mpirun for both hosts. Use it if another program, such as a job script, writes
        mpirun's command line. Start that program with the prefix `naming`."""
        return {
            "OMPI_MCA_plm_rsh_agent": str(self._agent),
            "OMPI_MCA_oob_tcp_if_include": f"{CONTROL}.0/24",
            "INTERFACES": f"{MESSAGES}.0/24",
        }

    def launcher(self, ranks, kill_seconds=0):
        """Returns the prefix of a command: mpirun with the same number of ranks on each host. kill_seconds: when a rank
        has ended, mpirun waits this long before TERM, and again before KILL. Before mpirun kills a stopped rank, mpirun
        continues it. With a short time, this rank is killed before it can report the rank that ended the run."""
        return [
            *self.naming, "mpirun", "-np", str(ranks), "--host", f"n1:{ranks // 2},n2:{ranks // 2}", "--bind-to", "none",
            "--mca", "plm_rsh_agent", str(self._agent), "--mca", "oob_tcp_if_include", f"{CONTROL}.0/24",
            "--mca", "btl_tcp_if_include", f"{MESSAGES}.0/24",
            "--mca", "odls_base_sigkill_timeout", str(kill_seconds),
        ]  # fmt: skip

    def cut(self, *networks):
        """Disconnects the second host from these links."""
        for link, network in enumerate((CONTROL, MESSAGES)):
            if network in networks:
                _ip("link", "set", self._end(link, 2), "down")

    def slow_down(self, rate):
        """Limits the rate of the second link in each direction. `rate`: in tc's notation, such as "1gbit"."""
        for host in (1, 2):
            bucket = ["tbf", "rate", rate, "burst", "128kb", "latency", "100ms"]
            _ip("netns", "exec", self._space(host), "tc", "qdisc", "add", "dev", "eth1", "root", *bucket)

    def _connect(self, link, network):
        bridge = self._bridge(link)
        _ip("link", "add", bridge, "type", "bridge")
        if network == CONTROL:
            _ip("addr", "add", f"{network}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in (1, 2):
            end, space = self._end(link, host), self._space(host)
            _ip("link", "add", end, "type", "veth", "peer", "name", f"eth{link}", "netns", space)
            _ip("link", "set", end, "master", bridge, "up")
            _ip("-n", space, "addr", "add", f"{network}.{host}/24", "dev", f"eth{link}")
            _ip("-n", space, "link", "set", f"eth{link}", "up")

    def _await_links(self):
        """Waits until the two hosts reach each other, and this host reaches both of them. A host without a listener on
        a port refuses a connection at once, which shows that it is reached."""
        closed = 9
        attempt = 'timeout 1 bash -c "echo >/dev/tcp/$0/$1" 2>/dev/null; [ $? = 124 ] || exit 0'
        reach = f"for number in $(seq 20); do {attempt}; done; exit 1"
        for host in (1, 2):
            other = 3 - host
            for prefix, address in (
                ([], f"{CONTROL}.{host}"),
                (["ip", "netns", "exec", self._space(host)], f"{CONTROL}.254"),
                (["ip", "netns", "exec", self._space(host)], f"{MESSAGES}.{other}"),
            ):
                command = [*prefix, "bash", "-c", reach, address, str(closed)]
                subprocess.run(command, check=True, capture_output=True, text=True)

    def _space(self, host):
        return f"car{self._number}-{host}"

    def _bridge(self, link):
        return f"car{self._number}b{link}"

    def _end(self, link, host):
        return f"car{self._number}v{link}{host}"


def _remove_leftovers():
    """Removes links and namespaces that killed processes left. Two links with the same network would disturb each
    other."""

    def is_left(name):
        number = re.match(r"car(\d+)[bv-]", name)
        return number and not Path(f"/proc/{number[1]}").exists()

    for link in filter(is_left, os.listdir("/sys/class/net")):
        _ip("link", "delete", link, check=False)
    for space in filter(is_left, os.listdir("/run/netns") if Path("/run/netns").exists() else []):
        _ip("netns", "delete", space, check=False)


def _ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


if __name__ == "__main__":
    with TwoHosts():
        pass
