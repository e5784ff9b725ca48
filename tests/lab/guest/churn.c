/* SPDX-License-Identifier: GPL-2.0 */
/*
 * churn DIRECTORY MS SEED [PAUSE_US] - changes the domains in a directory of the cgroup tree at
 * random for MS: makes and removes them, up to four levels of three; enables and disables the CPU
 * controller; sets weights, limits, policies and reservations; moves the processes of one domain
 * into another. If there are several CPUs, it pins processes to one of them or allows them all CPUs
 * again. All processes begin in DIRECTORY/home. At the end churn moves them back there and removes
 * all other domains; pinned processes stay pinned. Prints how often each action succeeded.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum {
	DEPTH = 4,
	WIDTH = 3
};

static const char *top;
static char home[PATH_MAX];
static int cpus;

static int say_to(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	int fd, done;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return 0;
	done = write(fd, text, strlen(text)) > 0;
	close(fd);
	return done;
}

/* The path of a random domain, at least one level below the top. It may exist or not. */
static const char *somewhere(void)
{
	static char place[2][PATH_MAX];
	static int turn;
	char *at = place[turn ^= 1];
	int n = snprintf(at, PATH_MAX, "%s", top);

	for (int level = 0; level < DEPTH && (!level || rand() % 2);
	     level++) /* most paths are short: those domains are likely to exist */
		n += snprintf(at + n, PATH_MAX - n, "/%c", 'a' + rand() % WIDTH);
	return rand() % 6 ? at : home;
}

/* Moves all processes of @from to @to, or a third of them; returns how many it moved. */
static int move(const char *from, const char *to, int all)
{
	char path[PATH_MAX], pid[32];
	int moved = 0;
	FILE *procs;

	snprintf(path, sizeof(path), "%s/cgroup.procs", from);
	procs = fopen(path, "r");
	while (procs && fgets(pid, sizeof(pid), procs))
		if ((all || rand() % 3 == 0) && say_to(to, "cgroup.procs", pid))
			moved++;
	if (procs)
		fclose(procs);
	return moved;
}

/* Pins half of the processes of @from to one CPU, or allows them all CPUs; returns how many. */
static int pin(const char *from)
{
	char path[PATH_MAX], pid[32];
	int pinned = 0;
	FILE *procs;

	snprintf(path, sizeof(path), "%s/cgroup.procs", from);
	procs = fopen(path, "r");
	while (procs && fgets(pid, sizeof(pid), procs)) {
		int one = rand() % 3 ? rand() % cpus : -1;
		cpu_set_t set;

		if (rand() % 2)
			continue;
		CPU_ZERO(&set);
		for (int cpu = 0; cpu < cpus; cpu++)
			if (one < 0 || cpu == one)
				CPU_SET(cpu, &set);
		pinned += !sched_setaffinity(atoi(pid), sizeof(set), &set);
	}
	if (procs)
		fclose(procs);
	return pinned;
}

static int attribute(const char *at)
{
	static const char *const policies[] = { "sfq", "mtr", "wrr", "fair", "fifo" };
	char text[64];

	switch (rand() % 4) {
	case 0:
		snprintf(text, sizeof(text), "%d%%", 1 + rand() % 30);
		return !setxattr(at, "trusted.aplomb.cpu", text, strlen(text), 0);
	case 1:
		snprintf(text, sizeof(text), "%dms/100ms", 1 + rand() % 30);
		return !setxattr(at, "trusted.aplomb.cpu", text, strlen(text), 0);
	case 2:
		return !removexattr(at, "trusted.aplomb.cpu");
	}
	snprintf(text, sizeof(text), "%s", policies[rand() % 5]);
	return !setxattr(at, "trusted.aplomb.policy", text, strlen(text), 0);
}

static const char *const actions[] = { "make", "remove",    "controller", "weight",
				       "max",  "unlimited", "idle",       "some",
				       "all",  "attribute", "empty",      "pin" };
enum {
	NR_ACTIONS = sizeof(actions) / sizeof(*actions)
};

static int act(int action)
{
	const char *at = somewhere();
	char text[64];

	switch (action) {
	case 0:
		return !mkdir(at, 0755);
	case 1:
		return at != home && !rmdir(at);
	case 2:
		return say_to(at, "cgroup.subtree_control", rand() % 4 ? "+cpu" : "-cpu");
	case 3:
		snprintf(text, sizeof(text), "%d",
			 rand() % 4 ? 1 + rand() % 300 : 1 + rand() % 10000);
		return say_to(at, "cpu.weight", text);
	case 4: /* at least 1 %: with less the job would take the processes for stuck */
		snprintf(text, sizeof(text), "%d000 %d000", 2 + rand() % 50, 10 + rand() % 190);
		return say_to(at, "cpu.max", text);
	case 5:
		return say_to(at, "cpu.max", "max");
	case 6:
		return say_to(at, "cpu.idle", rand() % 3 ? "0" : "1");
	case 7:
		return move(at, somewhere(), 0);
	case 8:
		return move(at, somewhere(), 1);
	case 9:
		return attribute(at);
	case 10: /* empty the domain and remove it at once */
		return at != home && move(at, home, 1) && !rmdir(at);
	case 11:
		return pin(at);
	}
	return 0;
}

static int clear(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	if (type == FTW_DP && strcmp(path, top) && strcmp(path, home)) {
		do
			move(path, home, 1);
		while (rmdir(path) && errno == EBUSY);
	}
	return 0;
}

int main(int count, char **words)
{
	int64_t end = now_ns() + argument(count, words, 2, 1000) * NS_PER_MS,
		pause = argument(count, words, 4, 1000);
	long done[NR_ACTIONS] = {}, changes = 0;

	if (count < 4)
		return 2;
	top = words[1];
	snprintf(home, sizeof(home), "%s/home", top);
	srand(atoi(words[3]));
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	while (now_ns() < end) {
		int action = rand() % (NR_ACTIONS - (cpus == 1)), success = act(action) > 0;

		done[action] += success;
		changes += success;
		usleep(pause);
	}
	say_to(home, "cpu.max", "max");
	say_to(home, "cpu.idle", "0");
	say_to(home, "cpu.weight", "100");
	removexattr(home, "trusted.aplomb.cpu");
	removexattr(home, "trusted.aplomb.policy");
	nftw(top, clear, 16, FTW_DEPTH | FTW_PHYS);
	printf("changes=%ld", changes);
	for (int i = 0; i < NR_ACTIONS; i++)
		printf(" %s=%ld", actions[i], done[i]);
	putchar('\n');
	return 0;
}
