/* SPDX-License-Identifier: GPL-2.0 */
/*
 * record FILE PROGRAM WORD... - the CPU time that a movie player uses for each frame.
 *
 * For every frame the player writes a status line ("V: ...", ended by a carriage return or a
 * newline) into a pipe, which this program reads at real-time priority on the player's CPU. So the
 * reader preempts the player while the player is still in write(). It reads the kernel's count of
 * the CPU time of all the player's threads (schedstat's first number, sum_exec_runtime, in ns; the
 * preemption has just brought it up to date), and sleeps again. The reader's own time is not in
 * that count. So a frame's time is exact, from one status line to the next, and contains all that
 * the player does: reading, demuxing, decoding, filters, output, the sleep until the frame is due.
 * On a machine with several CPUs pin both to one.
 *
 * When the player has ended, writes to FILE a line for each status line: monotonic clock and CPU
 * time so far, ns.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include "lib.h"

#define MOST_FRAMES 1000000

struct stamp {
	int64_t time, used;
};

/* The first number of a file, 0 if the file is gone (its thread has just ended). */
static int64_t first_number(const char *path)
{
	char text[64] = "";
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return 0;
	if (read(file, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(file);
	return strtoll(text, NULL, 10);
}

static int64_t used_ns(pid_t pid)
{
	char path[300];
	int64_t sum = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *threads = opendir(path);

	if (!threads)
		return 0;
	for (struct dirent *thread; (thread = readdir(threads));) {
		if (thread->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, thread->d_name);
		sum += first_number(path);
	}
	closedir(threads);
	return sum;
}

int main(int count, char **words)
{
	int ends[2], status;
	struct sched_param priority = { .sched_priority = 1 };
	struct stamp *stamps = calloc(MOST_FRAMES, sizeof(*stamps));
	int64_t frames = 0;
	char text[4096];
	int in_line = 0; /* 1: the line so far is a status line; -1: it is not */
	ssize_t got;

	if (count < 3) {
		fprintf(stderr, "usage: record FILE PROGRAM WORD...\n");
		return 2;
	}
	if (!stamps || pipe(ends))
		fail("record");
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execvp(words[2], words + 2);
		fail(words[2]);
	}
	close(ends[1]);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("sched_setscheduler");
	while ((got = read(ends[0], text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] == '\r' || text[i] == '\n') {
				if (in_line == 1 && frames < MOST_FRAMES)
					stamps[frames++] = (struct stamp){ now_ns(), used_ns(pid) };
				in_line = 0;
			} else if (!in_line) {
				in_line = text[i] == 'V' ? 1 : -1;
			}
		}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "record: %s failed\n", words[2]);
		return 1;
	}
	FILE *file = fopen(words[1], "w");

	if (!file)
		fail(words[1]);
	for (int64_t i = 0; i < frames; i++)
		fprintf(file, "%lld %lld\n", (long long)stamps[i].time, (long long)stamps[i].used);
	if (fclose(file))
		fail(words[1]);
	return 0;
}
