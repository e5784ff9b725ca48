"""The emulator's command line: the machine types, and the choice between KVM and TCG.

timing:     one CPU in virtual time (-icount): time is instructions, so measurements repeat and the
            host's load does not matter. Always TCG, since KVM cannot count instructions.
            timing-smp: two or more CPUs in virtual time, which take turns on one host thread. A CPU
            without its turn stands still while time passes: the task on it is charged for that
            time, as on a machine of half the speed.
smp:        two or more CPUs in real time: KVM where it works, else one host thread per CPU (MTTCG).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .disks import Disk
from .errors import LabError
from .kernel import Kernel
from .tools import Tools
from .topology import Topology

MACHINES = {
    "timing": 1,
    "timing-smp": 2,
    "smp": 2,
}  # machine type: CPUs, unless --cpus says otherwise
# shift=1: an instruction takes 2 ns, so 500 MIPS. shift=4 misbehaves, and sleep=on would wait for
# real time.
ICOUNT = "shift=1,sleep=off"
# A turn on timing-smp ends at the emulator's next timer or before it, and the guest's own may be 4
# ms away. A network filter that nothing goes through sets one each so many us of virtual time, and
# the guest does not see it: shorter turns would cost more time of the host, longer ones make the
# guest's timers late.
TURN_US = 100


def in_virtual_time(machine: str) -> bool:
    """Does this machine type count instructions for time?"""
    return machine.startswith("timing")


def kvm_usable() -> bool:
    """Is there a KVM device that we may open? Whether guests boot under it is another matter
    (machine.py asks).
    """
    return os.access("/dev/kvm", os.R_OK | os.W_OK)


@dataclass
class Setup:
    """What one guest is made of."""

    machine: str
    accel: str  # "kvm" or "tcg"
    memory_mb: int
    kernel: Kernel
    image: Path
    initrd: Path
    topology: Topology
    append: str = ""
    scratch: Path | None = None  # an empty disk of the emulator, /dev/vda
    disks: tuple[Disk, ...] = ()

    @property
    def extra_mb(self) -> int:
        """Memory for the data of the guest's own disks, beyond memory_mb."""
        return sum(disk.extra_mb for disk in self.disks)


def command(tools: Tools, setup: Setup, folder: Path) -> list[str]:
    """The words that start a guest. Its console is on stdin and stdout, its ports write files in
    `folder`.
    """
    if setup.machine not in MACHINES:
        raise LabError(
            f"there is no machine type {setup.machine}: choose one of {', '.join(MACHINES)}"
        )
    if setup.accel == "kvm" and in_virtual_time(setup.machine):
        raise LabError(f"{setup.machine} counts instructions for time, which KVM cannot: take smp")
    words = [
        str(tools.path("qemu-system-x86_64")),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]
    # The high-precision event timer is off, or the kernel may choose it, and each reading of it is
    # slow.
    words += [
        "-M",
        "q35,nvdimm=on,hpet=off",
        *setup.topology.options(setup.memory_mb, setup.extra_mb),
    ]
    if setup.accel == "kvm":
        words += ["-accel", "kvm", "-cpu", "host"]
    elif in_virtual_time(setup.machine):
        # The guest's date follows virtual time too, so that it does not jump when the host is slow.
        words += [
            "-accel",
            "tcg,thread=single",
            "-icount",
            ICOUNT,
            "-cpu",
            "max",
            "-rtc",
            "base=utc,clock=vm",
        ]
    else:
        words += ["-accel", "tcg,thread=multi", "-cpu", "max"]
    if setup.machine == "timing-smp":
        words += [
            "-netdev",
            "hubport,id=turns,hubid=0",
            "-object",
            f"filter-buffer,id=turn,netdev=turns,interval={TURN_US}",
        ]
    # Persistent memory lies in the same address space as memory: leave room for it.
    memory_mb = setup.memory_mb + setup.extra_mb
    words += ["-m", f"{memory_mb}M,slots=2,maxmem={memory_mb + 16384}M"]
    # The root and the modules are persistent-memory devices, not disks: reading them is copying
    # memory, so a run in virtual time has no waits whose length the host decides. They are mapped
    # privately: the guest may write to the root, the file stays as it is, and guests that run side
    # by side share its pages.
    for number, image in enumerate((setup.image, setup.kernel.modules_image)):
        words += [
            "-object",
            f"memory-backend-file,id=mem{number},mem-path={_escaped(image)},share=off,readonly=on,"
            f"rom=off,size={image.stat().st_size}",
            "-device",
            f"nvdimm,memdev=mem{number},id=nvdimm{number}",
        ]
    if setup.scratch is not None:
        words += [
            "-drive",
            f"file={_escaped(setup.scratch)},format=raw,if=none,id=scratch,cache=unsafe,discard=unmap",
            "-device",
            "virtio-blk-pci,drive=scratch",
        ]
    for disk in setup.disks:
        if disk.via == "qemu":
            limits = "".join(
                f",throttling.{name}-total={value}"
                for name, value in (("iops", disk.iops), ("bps", disk.rate))
                if value
            )
            words += [
                "-drive",
                f"file={_escaped(folder / disk.name)},format=raw,if=none,id={disk.name},"
                f"cache=unsafe,discard=unmap{limits}",
                "-device",
                f"virtio-blk-pci,drive={disk.name},serial={disk.name}",
            ]
    words += ["-device", "virtio-serial-pci"]
    for name in ("status", "stdout", "results"):
        words += [
            "-chardev",
            f"file,id={name},path={_escaped(folder / name)}",
            "-device",
            f"virtserialport,chardev={name},name=lab.{name}",
        ]
    words += [
        "-device",
        "virtio-rng-pci",
        "-serial",
        "stdio",
        "-kernel",
        str(setup.kernel.vmlinuz),
        "-initrd",
        str(setup.initrd),
        # panic=-1 with -no-reboot: a guest that panics ends at once, its last words on the console.
        # notests: the kernel would test its ciphers at every boot.
        "-append",
        "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off cryptomgr.notests "
        f"log_buf_len=4M {setup.append}".strip(),
    ]
    return words


def _escaped(path: Path) -> str:
    """QEMU splits its options at commas; a comma in a path is written twice."""
    return str(path).replace(",", ",,")
