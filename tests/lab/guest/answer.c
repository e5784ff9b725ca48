/* SPDX-License-Identifier: GPL-2.0 */
/*
 * answer SOCKET - asks the daemon for its status each second, on a new connection, and prints how
 * long the first bytes of the answer took, in us. Ends when it is killed.
 */
#include "lib.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(int count, char **words)
{
	static const char request[] = "{\"v\":1,\"ask\":{\"status\":{}}}\n";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	static char answer[4096];

	if (count < 2)
		return 2;
	strncpy(address.sun_path, words[1], sizeof(address.sun_path) - 1);
	for (;;) {
		int64_t start = now_ns();
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
		    write(fd, request, sizeof(request) - 1) < 0 ||
		    read(fd, answer, sizeof(answer)) <= 0)
			fail("asking the daemon");
		printf("%lld\n", (long long)((now_ns() - start) / NS_PER_US));
		fflush(stdout);
		close(fd);
		sleep(1);
	}
}
