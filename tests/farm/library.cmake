# The library's handles come from the shared library; what tests compare with, from the components.
lfarm_test(library LABEL farm TIMEOUT 1800 SOURCES library_test.cc COMPONENTS clients/cli
  LIBRARIES lfarm_library DEPENDS lfarm lfarm-coordinator lfarm-worker)
add_test(NAME farm.examples COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/examples.sh ${CMAKE_BINARY_DIR})
set_tests_properties(farm.examples PROPERTIES LABELS farm)
lfarm_time_limit(farm.examples 1800)
lfarm_sanitized_test(farm.examples PRELOAD LFARM_PRELOAD)
add_test(NAME farm.package COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package.sh ${CMAKE_BINARY_DIR})
set_tests_properties(farm.package PROPERTIES LABELS farm)
lfarm_time_limit(farm.package 1800)
add_test(NAME farm.wheel COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/wheel_test.py ${CMAKE_BINARY_DIR})
set_tests_properties(farm.wheel PROPERTIES LABELS farm SKIP_RETURN_CODE 77)
lfarm_time_limit(farm.wheel 1800)
lfarm_sanitized_test(farm.wheel PRELOAD LFARM_PRELOAD)
# The interpreter of the system, which has Debian's NumPy; tests that lack something say so.
add_test(NAME farm.python COMMAND /usr/bin/python3 -B -m pytest -q -rs -p no:cacheprovider
  ${CMAKE_SOURCE_DIR}/tests/python)
set_tests_properties(farm.python PROPERTIES LABELS farm ENVIRONMENT
  "PYTHONPATH=${CMAKE_SOURCE_DIR}/clients/python;LFARM_LIBRARY=${CMAKE_BINARY_DIR}/lib/liblfarm.so.1;LFARM_BIN=${CMAKE_BINARY_DIR}/bin")
lfarm_time_limit(farm.python 1800)
lfarm_sanitized_test(farm.python PRELOAD LD_PRELOAD)
lfarm_test(cli_plans LABEL farm TIMEOUT 1800 SOURCES cli/cli_plans_test.cc COMPONENTS common/base common/process
  LIBRARIES lfarm_library nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
