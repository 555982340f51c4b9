# All are linked with entry.cc and corpus.cc; as tests with replay_main.cc, under the preset `fuzz`
# with libFuzzer (cmake/component.cmake).
lfarm_fuzz(pickle SOURCE pickle_fuzz.cc COMPONENTS clients/pt2 common/base)
lfarm_fuzz(archive SOURCE archive_fuzz.cc COMPONENTS clients/pt2 common/base common/ir)
lfarm_fuzz(message SOURCE message_fuzz.cc COMPONENTS common/wire)
lfarm_fuzz(graph SOURCE graph_fuzz.cc COMPONENTS common/wire common/ir)
lfarm_fuzz(plan SOURCE plan_fuzz.cc ../unit/wire/wire_samples.cc COMPONENTS common/wire common/wire/bundle common/ir)
lfarm_fuzz(plan_archive SOURCE plan_archive_fuzz.cc COMPONENTS clients/runtime common/base)
lfarm_fuzz(task SOURCE task_fuzz.cc ../unit/wire/wire_samples.cc COMPONENTS common/wire common/ir)
lfarm_fuzz(journal SOURCE journal_fuzz.cc ../unit/wire/wire_samples.cc
  COMPONENTS coordinator/service/journal common/ir)
lfarm_fuzz(keys SOURCE keys_fuzz.cc COMPONENTS clients/runtime common/wire)
lfarm_fuzz(program SOURCE program_fuzz.cc COMPONENTS clients/pt2 common/base common/ir)
lfarm_fuzz(expr SOURCE expr_fuzz.cc COMPONENTS clients/pt2 common/base common/ir)
lfarm_fuzz(child SOURCE child_fuzz.cc ../unit/wire/wire_samples.cc
  COMPONENTS worker/compile worker/profile common/wire common/ir)
lfarm_fuzz(npy SOURCE npy_fuzz.cc COMPONENTS clients/cli common/base common/runtime)
lfarm_fuzz(measurements SOURCE measurements_fuzz.cc
  COMPONENTS clients/report clients/report/logs clients/score common/base common/records)
lfarm_test(graph_differential LABEL fuzz TIMEOUT 1800
  SOURCES graph_differential_test.cc graphs/random_graph.cc graphs/graph_grower.cc graphs/graph_grower_views.cc
          graphs/tame_builder.cc
  COMPONENTS common/base common/ir common/plan common/runtime common/wire coordinator/search
             common/schedule/kernels worker/codegen/c worker/compile)
lfarm_test(plan_key LABEL fuzz TIMEOUT 1800
  SOURCES plan_key_test.cc graphs/graph_edits.cc graphs/random_graph.cc graphs/graph_grower.cc graphs/graph_grower_views.cc
          graphs/tame_builder.cc
  COMPONENTS common/base common/ir common/plan common/runtime)
lfarm_test(normal_form LABEL fuzz TIMEOUT 1800
  SOURCES normal_form_test.cc graphs/random_graph.cc graphs/graph_grower.cc graphs/graph_grower_views.cc graphs/tame_builder.cc
  COMPONENTS common/base common/ir common/runtime coordinator/search)
lfarm_test(searched_nests LABEL fuzz TIMEOUT 1800 SOURCES searched_nests_test.cc
  COMPONENTS common/base common/ir common/runtime common/schedule/kernels coordinator/search coordinator/search/passes
             coordinator/search/strategy clients/pt2)
