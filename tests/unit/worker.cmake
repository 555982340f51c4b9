lfarm_test(worker_agent LABEL unit SOURCES worker_agent_test.cc COMPONENTS worker/agent)
lfarm_test(worker_profile LABEL unit SOURCES worker_profile_test.cc
  COMPONENTS worker/profile common/runtime common/wire)
lfarm_test(worker_measure LABEL unit SOURCES worker_measure_test.cc
  COMPONENTS worker/profile common/runtime)
foreach(name profile measure)
  target_include_directories(test_worker_${name} PRIVATE ${CMAKE_SOURCE_DIR})
endforeach()
lfarm_test(worker_pipeline LABEL unit SOURCES worker_pipeline_test.cc
  COMPONENTS worker/agent worker/profile worker/codegen/c worker/compile common/wire common/ir)
lfarm_test(worker_binary LABEL unit SOURCES worker_binary_test.cc
  COMPONENTS common/base common/wire DEPENDS lfarm-worker)
lfarm_test(nvrtc_compiler LABEL unit SOURCES nvrtc_compiler_test.cc COMPONENTS worker/compile common/cuda)
lfarm_test(worker_limits LABEL unit SOURCES worker_limits_test.cc COMPONENTS worker/agent)
lfarm_test(worker_sandbox LABEL unit SOURCES worker_sandbox_test.cc COMPONENTS worker/agent common/sandbox)
lfarm_test(compiler_pauses LABEL unit SOURCES compiler_pauses_test.cc COMPONENTS worker/agent worker/profile)
lfarm_test(worker_take_key LABEL unit SOURCES worker_take_key_test.cc COMPONENTS worker/agent common/wire)
