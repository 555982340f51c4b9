# Headers of libraries that are parsed once for many sources.
#
# lfarm_precompiled(TARGET KIND) lets the sources of TARGET begin from the precompiled headers of
# KIND: `standard` and `json` for components, `test` for GoogleTest programs. A source with options
# of its own sets SKIP_PRECOMPILE_HEADERS. Only the preset `release` does this: the other presets and
# `make lint` compile each source as it stands, and so find an include that is missing.
option(LFARM_PRECOMPILE "Parse the headers of libraries once for many sources; needs GCC" OFF)
set(LFARM_STANDARD_HEADERS <algorithm> <array> <atomic> <charconv> <chrono> <cmath>
  <condition_variable> <cstdint> <cstdio> <cstring> <filesystem> <functional> <limits> <map> <memory>
  <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map>
  <utility> <variant> <vector>)

if(LFARM_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(LFARM_PRECOMPILES ON)
  set(stub ${CMAKE_BINARY_DIR}/precompiled.cc)
  if(NOT EXISTS ${stub})
    file(WRITE ${stub} "")
  endif()
  # lfarm_precompile(KIND HEADERS... OPTIONS... LIBRARIES...): the sources must be compiled with the
  # same options, and with the same definitions as far as the headers look at them.
  function(lfarm_precompile kind)
    cmake_parse_arguments(ARG "" "" "HEADERS;OPTIONS;LIBRARIES" ${ARGN})
    add_library(precompiled_${kind} OBJECT ${stub})
    target_compile_options(precompiled_${kind} PRIVATE ${LFARM_WARNINGS} ${ARG_OPTIONS})
    target_link_libraries(precompiled_${kind} PRIVATE ${ARG_LIBRARIES})
    target_precompile_headers(precompiled_${kind} PRIVATE ${ARG_HEADERS})
  endfunction()
  # ccache can tell from preprocessed text which precompiled header it began with.
  add_compile_options(-fpch-preprocess)
  lfarm_precompile(standard HEADERS ${LFARM_STANDARD_HEADERS})
  lfarm_precompile(json HEADERS ${LFARM_STANDARD_HEADERS} <nlohmann/json.hpp>)
  lfarm_precompile(test HEADERS ${LFARM_STANDARD_HEADERS} <gtest/gtest.h>
    OPTIONS ${LFARM_TEST_OPTIONS} -fPIE LIBRARIES GTest::gtest)
  set_target_properties(precompiled_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endif()

function(lfarm_precompiled target kind)
  if(LFARM_PRECOMPILES)
    target_precompile_headers(${target} REUSE_FROM precompiled_${kind})
  endif()
endfunction()
