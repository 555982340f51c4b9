# One function makes one folder a component, and holds it to what it declares.
#
# lfarm_component(common/ir/expr
#   HEADERS bounds.h expr.h        # every header of the folder
#   SOURCES bounds.cc expr.cc      # every source of the folder
#   APART expr.cc                  # those of SOURCES that are not compiled together with others
#   PUBLIC common/base             # components its headers include
#   PRIVATE ...                    # components only its sources include
#   LIBRARIES spdlog::spdlog)      # third-party libraries; they never leak to dependents
#
# The component can include only its own headers and those of the components it declares, because
# each component's headers are reachable through an include root of its own. A whole-archive link
# proves that it needs no symbol from an undeclared component. A header without a source of its own
# name is compiled alone, so that every header is self-contained; the target `binaries` leaves that
# out.

set(LFARM_WARNINGS -Wall -Wextra -Wno-missing-field-initializers)
set(werror ${LFARM_WERROR})
if(LFARM_WERROR STREQUAL "")
  # The compiler that CI uses. What CI and a user compile has the same options, so ccache's objects
  # serve both.
  set(werror OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
    set(werror ON)
  endif()
endif()
if(werror)
  list(APPEND LFARM_WARNINGS -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees uninitialised variants in inlined std::variant code that is sound.
    list(APPEND LFARM_WARNINGS -Wno-error=maybe-uninitialized -Wno-error=restrict
         -Wno-error=stringop-overflow -Wno-error=array-bounds)
  endif()
endif()
# Half of the compiling is tests' own sources, which run once: -O1 takes a fifth off them. What they
# test stays as it ships.
set(LFARM_TEST_OPTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(LFARM_TEST_OPTIONS -O1)
endif()
option(LFARM_FUZZ "Make the fuzzers libFuzzer programs instead of tests; needs clang" OFF)
if(LFARM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
set(LFARM_TIME_FACTOR 1)
if(LFARM_SANITIZE)
  add_compile_options(-fsanitize=${LFARM_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LFARM_SANITIZE})
  set(LFARM_TIME_FACTOR 10)  # what tests may take longer
  if(LFARM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

include(cmake/joined.cmake)
include(cmake/precompiled.cmake)

function(lfarm_target_name path out)
  string(REPLACE "/" "_" name ${path})
  set(${out} lfarm_${name} PARENT_SCOPE)
endfunction()

# The target `lint` runs clang-tidy on every source of the project. It compiles nothing: which headers
# a source includes is known from the preprocessor's run before (.ci/tidy-file).
find_program(CLANG_TIDY clang-tidy-14)
add_custom_target(lint)
function(lfarm_tidy target)
  if(NOT CLANG_TIDY)
    return()
  endif()
  set(stamps)
  foreach(source ${ARGN})
    get_filename_component(absolute ${source} ABSOLUTE)
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${absolute})
    string(REPLACE "/" "_" id ${name})
    get_property(known GLOBAL PROPERTY ${id})
    if(known OR name MATCHES "^\\.\\./")
      continue()  # shared by two tests, or generated
    endif()
    set_property(GLOBAL PROPERTY ${id} ON)
    set(stamp ${CMAKE_BINARY_DIR}/lint/${id}.stamp)
    set(definitions $<FILTER:$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>,EXCLUDE,^$>)
    set(includes $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    set(packages $<FILTER:$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>,INCLUDE,^-D>)
    add_custom_command(OUTPUT ${stamp}
      COMMAND ${CMAKE_SOURCE_DIR}/.ci/tidy-file ${stamp} ${absolute} -std=c++20
              "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
              "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" "${packages}"
      DEPENDS ${absolute} ${CMAKE_SOURCE_DIR}/.clang-tidy ${CMAKE_SOURCE_DIR}/tests/.clang-tidy
              ${CMAKE_SOURCE_DIR}/.ci/tidy-file
      DEPFILE ${stamp}.d
      COMMENT "clang-tidy ${name}" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND stamps ${stamp})
  endforeach()
  add_custom_target(lint_${target} DEPENDS ${stamps})
  add_dependencies(lint_${target} schema_headers)
  add_dependencies(lint lint_${target})
endfunction()

function(lfarm_component path)
  cmake_parse_arguments(ARG "" "" "HEADERS;SOURCES;APART;PUBLIC;PRIVATE;LIBRARIES" ${ARGN})
  lfarm_target_name(${path} target)
  set(folder ${CMAKE_SOURCE_DIR}/${path})
  set(include_root ${CMAKE_BINARY_DIR}/include/${target})
  get_filename_component(parent ${include_root}/${path} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${folder} ${include_root}/${path} SYMBOLIC)

  list(TRANSFORM ARG_APART PREPEND ${folder}/ OUTPUT_VARIABLE apart)
  set(together ${ARG_SOURCES})
  list(REMOVE_ITEM together ${ARG_APART})
  lfarm_joined(joined ${path} ${together})
  set(checks)
  foreach(header ${ARG_HEADERS})
    string(REGEX REPLACE "\\.h$" ".cc" twin ${header})
    if(NOT twin IN_LIST ARG_SOURCES)
      set(check ${CMAKE_BINARY_DIR}/header_checks/${path}/${header}.cc)
      if(NOT EXISTS ${check})
        file(WRITE ${check} "#include \"${path}/${header}\"  // IWYU pragma: keep\n")
      endif()
      list(APPEND checks ${check})
    endif()
  endforeach()

  add_library(${target} STATIC ${joined} ${apart})
  if("nlohmann_json::nlohmann_json" IN_LIST ARG_LIBRARIES)
    lfarm_precompiled(${target} json)
  else()
    lfarm_precompiled(${target} standard)
  endif()
  lfarm_tidy(${target} ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${include_root})
  target_compile_options(${target} PRIVATE ${LFARM_WARNINGS} ${LFARM_JOINED_OPTIONS})
  set(dependencies)
  foreach(dependency ${ARG_PUBLIC})
    lfarm_target_name(${dependency} name)
    target_link_libraries(${target} PUBLIC ${name})
    list(APPEND dependencies ${name})
  endforeach()
  foreach(dependency ${ARG_PRIVATE})
    lfarm_target_name(${dependency} name)
    target_link_libraries(${target} PRIVATE ${name})
    list(APPEND dependencies ${name})
  endforeach()
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
  if(checks)
    add_library(headers_${target} OBJECT ${checks})
    target_compile_options(headers_${target} PRIVATE ${LFARM_WARNINGS})
    target_link_libraries(headers_${target} PRIVATE ${target} ${ARG_LIBRARIES})
  endif()

  set(stub ${CMAKE_BINARY_DIR}/link_test_main.cc)
  if(NOT EXISTS ${stub})
    file(WRITE ${stub} "int main() { return 0; }\n")
  endif()
  add_executable(link_${target} ${stub})
  set_target_properties(link_${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/link_tests)
  target_link_libraries(link_${target} PRIVATE
    -Wl,--whole-archive ${target} -Wl,--no-whole-archive ${dependencies} ${ARG_LIBRARIES})
endfunction()

# lfarm_rooms(common/ir expr hlir roll llir)
# A folder whose subfolders are components, in the order of the arrows. Declaring it as a dependency
# declares them all.
function(lfarm_rooms path)
  lfarm_target_name(${path} target)
  add_library(${target} INTERFACE)
  foreach(room ${ARGN})
    add_subdirectory(${room})
    lfarm_target_name(${path}/${room} name)
    target_link_libraries(${target} INTERFACE ${name})
  endforeach()
endfunction()

# lfarm_executable(lfarm-worker SOURCE worker/agent/main.cc COMPONENTS worker/agent)
# The target `programs` makes all of these, `binaries` also what else comes with lfarm, and no tests.
add_custom_target(programs)
add_custom_target(binaries DEPENDS programs)
function(lfarm_executable name)
  cmake_parse_arguments(ARG "" "SOURCE" "COMPONENTS;LIBRARIES" ${ARGN})
  add_executable(${name} ${CMAKE_SOURCE_DIR}/${ARG_SOURCE})
  target_compile_options(${name} PRIVATE ${LFARM_WARNINGS})
  foreach(dependency ${ARG_COMPONENTS})
    lfarm_target_name(${dependency} target)
    target_link_libraries(${name} PRIVATE ${target})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
  add_dependencies(programs ${name})
  lfarm_tidy(${name} ${CMAKE_SOURCE_DIR}/${ARG_SOURCE})
endfunction()

# lfarm_sanitized_test(farm.python PRELOAD LD_PRELOAD)
# What a ctest entry needs in its environment with sanitizers. PRELOAD: programs that are not built
# here load what is; the variable of that name tells which library they must load first.
function(lfarm_sanitized_test test)
  cmake_parse_arguments(ARG "" "PRELOAD" "" ${ARGN})
  if(LFARM_SANITIZE MATCHES "thread")
    # Executor children are meant to die of their candidates' signals, not to report them.
    string(JOIN ":" options suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp
           ignore_noninstrumented_modules=1 handle_segv=0 handle_abort=0 handle_sigbus=0)
    set(environment TSAN_OPTIONS=${options})
    set(runtime libtsan.so)
  elseif(LFARM_SANITIZE MATCHES "address")
    # Thread-local memory of the emulated GPU's libraries is not where the leak checker takes it to be.
    set(options intercept_tls_get_addr=0)
    if(ARG_PRELOAD)  # Python frees little at its end
      string(APPEND options ":detect_leaks=0")
    endif()
    set(environment ASAN_OPTIONS=${options}
        LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0)
    set(runtime libasan.so)
  else()
    return()
  endif()
  if(ARG_PRELOAD)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime}
                    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND environment ${ARG_PRELOAD}=${path})
  endif()
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${environment})
endfunction()

# lfarm_time_limit(farm.python 1800)
# Ends a hang. Ten minutes at least, and thrice as many for what compiles kernels or searches: with
# several times as much work as cores a test takes ten times what it takes alone.
function(lfarm_time_limit test seconds)
  math(EXPR seconds "${seconds} * ${LFARM_TIME_FACTOR}")
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# Tests include each other's helpers from here, as "tests/unit/ir/models.h".
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include/tests)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/tests ${CMAKE_BINARY_DIR}/include/tests/tests SYMBOLIC)

# lfarm_test(graph_hash LABEL unit SOURCES graph_hash_test.cc COMPONENTS common/ir)
# One GoogleTest executable; ctest runs its tests under the label. SHARDS 4: in four entries,
# unit.graph_hash.1 to .4, so that ctest can run them beside one another. TIMEOUT: see
# lfarm_time_limit. tests/paths tells where its files and the built programs are. ON_EMULATED_GPU: see tests/emulator.
function(lfarm_test name)
  cmake_parse_arguments(ARG "ON_EMULATED_GPU" "LABEL;TIMEOUT;SHARDS" "SOURCES;COMPONENTS;LIBRARIES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  lfarm_tidy(test_${name} ${ARG_SOURCES})
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_options(test_${name} PRIVATE ${LFARM_WARNINGS} ${LFARM_TEST_OPTIONS})
  target_include_directories(test_${name} PRIVATE ${CMAKE_BINARY_DIR}/include/tests)
  lfarm_precompiled(test_${name} test)
  foreach(dependency ${ARG_COMPONENTS})
    lfarm_target_name(${dependency} target)
    target_link_libraries(test_${name} PRIVATE ${target})
  endforeach()
  target_link_libraries(test_${name} PRIVATE ${ARG_LIBRARIES} lfarm_test_paths GTest::gtest GTest::gtest_main)
  if(ARG_DEPENDS)
    add_dependencies(test_${name} ${ARG_DEPENDS})
  endif()
  # One ctest entry per executable: starting a process per test case costs more than the cases.
  set(entries ${ARG_LABEL}.${name})
  if(ARG_SHARDS)
    set(entries)
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND entries ${ARG_LABEL}.${name}.${shard})
    endforeach()
  endif()
  if(ARG_ON_EMULATED_GPU)
    add_dependencies(test_${name} emulator)
  endif()
  set(index 0)
  foreach(entry ${entries})
    add_test(NAME ${entry} COMMAND test_${name})
    set_tests_properties(${entry} PROPERTIES LABELS ${ARG_LABEL})
    lfarm_time_limit(${entry} ${ARG_TIMEOUT})
    if(ARG_SHARDS)
      set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT
        GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    if(ARG_ON_EMULATED_GPU)
      set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT
        "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/emulator")
    endif()
    lfarm_sanitized_test(${entry})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# lfarm_fuzz(pickle SOURCE pickle_fuzz.cc COMPONENTS clients/pt2)
# A fuzzer (tests/fuzz/fuzz.h): a ctest entry, or with LFARM_FUZZ a libFuzzer program.
function(lfarm_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCE;COMPONENTS" ${ARGN})
  add_executable(fuzz_${name} ${ARG_SOURCE} ${CMAKE_SOURCE_DIR}/tests/fuzz/entry.cc
                 ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus.cc)
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(fuzz_${name} PRIVATE ${LFARM_WARNINGS})
  target_link_libraries(fuzz_${name} PRIVATE lfarm_test_paths)
  target_compile_definitions(fuzz_${name} PRIVATE LFARM_FUZZ_NAME="${name}")
  foreach(dependency ${ARG_COMPONENTS})
    lfarm_target_name(${dependency} target)
    target_link_libraries(fuzz_${name} PRIVATE ${target})
  endforeach()
  if(LFARM_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    lfarm_tidy(fuzz_${name} ${ARG_SOURCE} ${CMAKE_SOURCE_DIR}/tests/fuzz/entry.cc
               ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
    lfarm_time_limit(fuzz.${name} 600)
  endif()
endfunction()
