# As tests they are linked with replay_main.cc, under the preset `fuzz` with libFuzzer.
lfarm_fuzz(pickle SOURCE pickle_fuzz.cc COMPONENTS clients/pt2 common/base)
lfarm_fuzz(archive SOURCE archive_fuzz.cc COMPONENTS clients/pt2 common/base common/ir)
lfarm_fuzz(message SOURCE message_fuzz.cc COMPONENTS common/wire)
lfarm_fuzz(graph SOURCE graph_fuzz.cc COMPONENTS common/wire common/ir)
