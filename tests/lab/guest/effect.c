/* SPDX-License-Identifier: GPL-2.0 */
/*
 * effect - carries out a change of a task or a cgroup and prints how long the change took to take
 * effect: effect_us.
 *
 *   effect affinity TID CPU   sched_setaffinity(): returns when the task is on an allowed CPU
 *   effect cpus CGROUP LIST   writes cpuset.cpus: returns when all tasks are on allowed CPUs
 *   effect freeze CGROUP      writes cgroup.freeze: until cgroup.events says "frozen 1"
 *   effect kill PID           SIGKILL: until all threads of the process have ended
 *
 * It gives up after 5 s. The caller runs it at real-time priority.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>

#define GIVE_UP (5000 * NS_PER_MS)

static int put(const char *directory, const char *file, const char *text)
{
	char path[512];
	int fd, done;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = open(path, O_WRONLY);
	done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

static int is_frozen(const char *directory)
{
	char path[512], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.events", directory);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return 0;
	close(fd);
	return strstr(text, "frozen 1") != NULL;
}

static int affinity(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(tid, sizeof(set), &set);
}

static int freeze(const char *directory, int64_t start)
{
	if (!put(directory, "cgroup.freeze", "1"))
		return 0;
	while (!is_frozen(directory)) {
		if (now_ns() - start > GIVE_UP)
			return 0;
		sleep_until_ns(now_ns() + 100 * NS_PER_US);
	}
	return 1;
}

static int end(pid_t pid, int64_t start)
{
	struct pollfd it = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };

	return it.fd >= 0 && !kill(pid, SIGKILL) && poll(&it, 1, GIVE_UP / NS_PER_MS) == 1;
}

int main(int count, char **words)
{
	const char *what = count > 2 ? words[1] : "";
	int64_t start = now_ns();
	int done = 0;

	if (!strcmp(what, "affinity"))
		done = affinity((pid_t)argument(count, words, 2, 0),
				(int)argument(count, words, 3, 0));
	else if (!strcmp(what, "cpus"))
		done = put(words[2], "cpuset.cpus", count > 3 ? words[3] : "");
	else if (!strcmp(what, "freeze"))
		done = freeze(words[2], start);
	else if (!strcmp(what, "kill"))
		done = end((pid_t)argument(count, words, 2, 0), start);
	if (!done)
		return 1;
	printf("effect_us=%lld\n", (long long)((now_ns() - start) / NS_PER_US));
	return 0;
}
