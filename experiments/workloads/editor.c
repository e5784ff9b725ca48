/* SPDX-License-Identifier: GPL-2.0 */
/*
 * editor MB FILE IDLE_S RETURNS - a program that its user leaves for a while and returns to: it has
 * MB of anonymous memory and has mapped FILE. It writes to each page of the memory and reads each
 * page of the file, once at the start and once at each return, after IDLE_S of sleep.
 *
 * Prints a line of JSON for each return: how long it took, and how many major faults it had. The
 * lines are printed at once, so that those of a program that was killed remain.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib.h"

#define PAGE 4096

static int64_t major_faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_majflt;
}

static const volatile char *map_file(const char *path, int64_t *bytes)
{
	int file = open(path, O_RDONLY);
	struct stat about;

	if (file < 0 || fstat(file, &about))
		fail(path);
	*bytes = about.st_size;
	const char *memory = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, file, 0);

	if (memory == MAP_FAILED)
		fail(path);
	close(file);
	return memory;
}

int main(int count, char **words)
{
	if (count != 5) {
		fprintf(stderr, "usage: editor MB FILE IDLE_S RETURNS\n");
		return 2;
	}
	int64_t bytes = number("MB", words[1], 1, 1 << 20) << 20, file_bytes;
	int64_t idle = number("IDLE_S", words[3], 0, 100000) * NS_PER_S;
	int64_t returns = number("RETURNS", words[4], 1, 100000);
	const volatile char *file = map_file(words[2], &file_bytes);
	volatile char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	for (int64_t k = 0; k <= returns; k++) { /* the first is the start */
		int64_t faults = major_faults(), from = now_ns(), took;

		for (int64_t i = 0; i < bytes; i += PAGE)
			memory[i]++;
		for (int64_t i = 0; i < file_bytes; i += PAGE)
			(void)file[i];
		took = now_ns() - from;
		if (k) {
			printf("{\"ms\": %.3f, \"major_faults\": %lld}\n", took / 1e6,
			       (long long)(major_faults() - faults));
			fflush(stdout);
		}
		if (k < returns)
			sleep_until_ns(now_ns() + idle);
	}
	return 0;
}
