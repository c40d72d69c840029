# A server with four threads, and eight clients.
folder=$(mktemp -d) && chmod 755 "$folder" && cd "$folder" || exit 1
as=; [ "$(id -u)" = 0 ] && as='-u root'
memcached $as -s "$folder/s" -t 4 >log 2>&1 &
until [ -S s ]; do sleep 0.05; done
python3 - "$folder/s" <<'P'
import socket, sys, threading
def talk(n):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile('rwb')
    for i in range(300):
        f.write(b'set k%d-%d 0 0 3\r\nabc\r\n' % (n, i)); f.flush(); assert f.readline() == b'STORED\r\n'
        f.write(b'get k%d-%d\r\n' % (n, i)); f.flush(); assert [f.readline() for _ in range(3)][1] == b'abc\r\n'
threads = [threading.Thread(target=talk, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print('done')
P
kill $! ; wait $!; echo "status $?"
cd / && rm -r "$folder"
