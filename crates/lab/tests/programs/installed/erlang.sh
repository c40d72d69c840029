# Processes on four schedulers, and files by asynchronous threads.
exec erl +S 4:4 +A 4 -noshell -eval '
    Self = self(),
    [spawn(fun() -> receive N -> Self ! {sum, 2 * N} end end) ! N || N <- lists:seq(1, 10000)],
    Sum = fun F(0, All) -> All; F(Left, All) -> receive {sum, N} -> F(Left - 1, All + N) end end,
    io:format("~p~n", [Sum(10000, 0)]),
    ets:new(table, [named_table, public]),
    Writers = [spawn_monitor(fun() -> ets:insert(table, {I, I}), {ok, _} = file:read_file("/etc/passwd") end)
        || I <- lists:seq(1, 1000)],
    [receive {_, Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Writers],
    io:format("~p~n", [ets:info(table, size)]),
    halt().'
