/* SPDX-License-Identifier: GPL-2.0 */
/*
 * player FILE SCALE_PERCENT PERIOD_US FIRST SECONDS - plays a recorded trace: a movie without the
 * picture.
 *
 * FILE has a line for each frame with the CPU time in ns that the frame needs (crates/sim/traces;
 * "#" begins a comment). As mplayer does, the player decodes a frame (uses its CPU time, measured
 * by the player's own CPU clock, so the work does not depend on other load), sleeps until the frame
 * is due, shows it, and begins with the next. So frame k can begin k periods after the start and is
 * due a period later; a late frame is shown when it is ready. If a frame could begin only more than
 * 100 ms late, the player drops it at no cost, as with mplayer's -hardframedrop, so that the movie
 * keeps to its clock. The player begins with frame FIRST of the trace, so that several players are
 * not in step; after the trace's last frame comes its first.
 *
 * Prints one line of JSON when SECONDS have passed: frames due, shown, lost (dropped) and late
 * (ready after they were due), frames shown in each second, the longest time without a new frame,
 * CPU time used.
 */
#include "lib.h"

#define DROP_NS (100 * 1000 * NS_PER_US)
#define MOST_FRAMES 1000000
#define MOST_SECONDS 3600

static int64_t costs[MOST_FRAMES];

static int64_t read_trace(const char *name, int64_t scale_percent)
{
	FILE *file = fopen(name, "r");
	char *line = NULL, *end;
	size_t room = 0;
	int64_t n = 0;

	if (!file)
		fail(name);
	while (getline(&line, &room, file) > 0 && n < MOST_FRAMES) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		costs[n] = strtoll(line, &end, 10) * scale_percent / 100;
		if (end == line || costs[n] < 0) {
			fprintf(stderr, "%s: '%s' is no CPU time in ns\n", name, line);
			exit(2);
		}
		n++;
	}
	free(line);
	fclose(file);
	if (n == 0) {
		fprintf(stderr, "%s: no frames\n", name);
		exit(2);
	}
	return n;
}

int main(int count, char **words)
{
	if (count != 6) {
		fprintf(stderr, "usage: player FILE SCALE_PERCENT PERIOD_US FIRST SECONDS\n");
		return 2;
	}
	int64_t n = read_trace(words[1], number("SCALE_PERCENT", words[2], 1, 10000));
	int64_t period = number("PERIOD_US", words[3], 1000, 1000000) * NS_PER_US;
	int64_t first = number("FIRST", words[4], 0, MOST_FRAMES);
	int64_t seconds = number("SECONDS", words[5], 1, MOST_SECONDS);
	static int64_t shown_in[MOST_SECONDS];
	int64_t shown = 0, lost = 0, late = 0, gap = 0, due_frames = seconds * NS_PER_S / period;

	prctl(PR_SET_TIMERSLACK, 1); /* as in periodic.c */
	int64_t start = now_ns() + period, last = start + period;

	sleep_until_ns(start);
	for (int64_t k = 0; k < due_frames; k++) {
		int64_t release = start + k * period, due = release + period;

		if (now_ns() > release + DROP_NS) {
			lost++;
			continue;
		}
		burn_ns(costs[(first + k) % n]);
		late += now_ns() > due;
		sleep_until_ns(due);

		/*
		 * Seconds begin half a frame before the first is due: one a little late counts in
		 * its own.
		 */
		int64_t now = now_ns(), second = (now - start - period / 2) / NS_PER_S;

		shown++;
		gap = now - last > gap ? now - last : gap;
		last = now;
		if (second < seconds)
			shown_in[second]++;
	}
	printf("{\"due\": %lld, \"shown\": %lld, \"lost\": %lld, \"late\": %lld, "
	       "\"longest_gap_ms\": %.1f, "
	       "\"cpu_s\": %.3f, \"frames_per_second\": [",
	       (long long)due_frames, (long long)shown, (long long)lost, (long long)late, gap / 1e6,
	       clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9);
	for (int64_t s = 0; s < seconds; s++)
		printf("%s%lld", s ? ", " : "", (long long)shown_in[s]);
	printf("]}\n");
	return 0;
}
