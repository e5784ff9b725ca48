/* SPDX-License-Identifier: GPL-2.0 */
/*
 * poke SOCKET N BYTES - a hostile client: opens N connections, sends BYTES without a newline on
 * each, and keeps them open. Prints how many connected, and how many the daemon answered or closed
 * within 2 s; ends after 4 s.
 */
#include "lib.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MOST 1000

int main(int count, char **words)
{
	int64_t n = argument(count, words, 2, 1), bytes = argument(count, words, 3, 1000),
		connected = 0, answered = 0;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	static char junk[4096], answer[4096];
	int sockets[MOST];

	if (count < 2 || n > MOST)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	memset(junk, '{', sizeof(junk));
	strncpy(address.sun_path, words[1], sizeof(address.sun_path) - 1);
	for (int64_t i = 0; i < n; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
			continue;
		sockets[connected++] = fd;
		for (int64_t left = bytes; left > 0; left -= sizeof(junk))
			if (write(fd, junk,
				  left < (int64_t)sizeof(junk) ? left : (int64_t)sizeof(junk)) < 0)
				break;
	}
	sleep(2);
	for (int64_t i = 0; i < connected; i++)
		if (read(sockets[i], answer, sizeof(answer)) >= 0 || errno != EAGAIN)
			answered++;
	printf("connected=%lld answered=%lld\n", (long long)connected, (long long)answered);
	fflush(stdout);
	sleep(2);
	return 0;
}
