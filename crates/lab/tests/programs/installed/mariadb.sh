# A server, and transactions of sysbench in eight threads.
PATH=$PATH:/usr/sbin
folder=$(mktemp -d) && cd "$folder" || exit 1
export TMPDIR="$folder" # servers that share a directory delete each other's temporary tables
mariadb-install-db --no-defaults --datadir="$folder/data" --auth-root-authentication-method=normal --skip-test-db >log 2>&1 || { cat log; exit 1; }
as=; [ "$(id -u)" = 0 ] && as='--user=root'
mariadbd --no-defaults $as --datadir="$folder/data" --socket="$folder/s" --skip-networking --innodb-buffer-pool-size=16M >log2 2>&1 &
until mariadb-admin --no-defaults --socket="$folder/s" -u root ping >/dev/null 2>&1; do sleep 0.1; kill -0 $! || { cat log2; exit 1; }; done
mariadb --no-defaults --socket="$folder/s" -u root -e 'create database sbtest'
on="--mysql-socket=$folder/s --mysql-user=root --table-size=500 --tables=2"
sysbench oltp_read_write $on prepare | grep -c Creating
sysbench oltp_read_write $on --threads=8 --events=${EVENTS:-400} --time=0 run | grep -E 'total number of events|transactions:' | sed 's/(.*//; s/  */ /g'
sysbench oltp_read_write $on cleanup | grep -c Dropping
mariadb-admin --no-defaults --socket="$folder/s" -u root shutdown
wait $!; echo "status $?"
cd / && rm -r "$folder"
