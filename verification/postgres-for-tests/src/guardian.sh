# Owns the server. Starts a server for every line that it reads. When its input ends, it stops the server and
# deletes its data. The input ends when the test process closes it, or dies for any reason.
cluster=$1
shift
server=
while read -r _; do
    # The old server is dead, but its process id stays in use until this shell has waited for it.
    [ -z "$server" ] || wait "$server"
    "$@" </dev/null >>"$cluster/log" 2>&1 &
    server=$!
    echo "$server"
done
if [ -n "$server" ]; then
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
fi
# A killed server leaves the System V shared memory that guards its data directory.
if [ -f "$cluster/data/postmaster.pid" ]; then
    ipcrm -m "$(sed -n '7s/.* //p' "$cluster/data/postmaster.pid")" 2>/dev/null
fi
rm -rf "$cluster"
