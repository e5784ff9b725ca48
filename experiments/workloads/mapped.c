/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mapped FILE MB PERIOD_MS LEAD_S N - a program that works on a mapped file: in each period it
 * reads one byte of each page of the next MB of FILE, and at its end begins anew, for N periods.
 * Before that it reads all of the file once.
 *
 * A period is missed if its work is not done when the next one begins. A period that begins while
 * an earlier one's work goes on is skipped and counts as missed. The periods of the first LEAD_S
 * seconds after the program's start do not count: a load begins meanwhile.
 *
 * Prints a line of JSON about each second's periods: how many, how many were missed, major faults,
 * the longest time until the work was done. The lines are printed at once, so that those of a
 * program that was killed remain.
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

static void read_pages(const volatile char *from, int64_t bytes)
{
	for (int64_t i = 0; i < bytes; i += PAGE)
		(void)from[i];
}

/* What the periods of one second came to. */
struct line {
	int64_t periods, missed, longest;
};

static void print_line(struct line *l, int64_t *faults)
{
	int64_t now = major_faults();

	printf("{\"periods\": %lld, \"missed\": %lld, \"major_faults\": %lld, \"longest_ms\": "
	       "%.3f}\n",
	       (long long)l->periods, (long long)l->missed, (long long)(now - *faults),
	       l->longest / 1e6);
	fflush(stdout);
	*faults = now;
	*l = (struct line){ 0 };
}

int main(int count, char **words)
{
	if (count != 6) {
		fprintf(stderr, "usage: mapped FILE MB PERIOD_MS LEAD_S N\n");
		return 2;
	}
	int64_t begin = now_ns(), part = number("MB", words[2], 1, 1 << 20) << 20;
	int64_t period = number("PERIOD_MS", words[3], 1, 100000) * NS_PER_MS;
	int64_t lead = number("LEAD_S", words[4], 0, 100000) * NS_PER_S;
	int64_t n = number("N", words[5], 1, 10000000), next = 0, faults = 0, k = 0;
	int64_t each_line = period < NS_PER_S ? NS_PER_S / period : 1;
	int file = open(words[1], O_RDONLY);
	struct line line = { 0 };
	struct stat about;

	if (file < 0 || fstat(file, &about))
		fail(words[1]);
	if (about.st_size < part) {
		fprintf(stderr, "%s has less than %s MB\n", words[1], words[2]);
		return 1;
	}
	const volatile char *bytes = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);

	if (bytes == MAP_FAILED)
		fail("mmap");
	read_pages(bytes, about.st_size);
	begin += lead;
	for (int64_t release = now_ns() + period; k < n;) {
		int64_t passed, took;

		sleep_until_ns(release);
		if (!k && release < begin)
			faults = major_faults(); /* until the first period that counts */
		read_pages(bytes + next, part);
		next = next + 2 * part <= about.st_size ? next + part : 0;
		took = now_ns() - release;
		passed = took / period;
		if (release >= begin) {
			if (passed > n - 1 - k)
				passed = n - 1 - k;
			line.periods += 1 + passed;
			line.missed += (took > period) + passed;
			line.longest = took > line.longest ? took : line.longest;
			k += 1 + passed;
			if (line.periods >= each_line || k == n)
				print_line(&line, &faults);
		}
		release += (passed + 1) * period;
	}
	return 0;
}
