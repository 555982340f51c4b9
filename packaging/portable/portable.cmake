# Static archives in the place of Debian's shared libraries, for programs that run on other Debians and
# other distributions: of the system they need glibc and libgcc_s alone, which every one has, and older
# ones than those of the machine that builds. packaging/portable/libraries.sh says where the archives
# come from that Debian does not have.
set(LFARM_ARCHIVES ${CMAKE_BINARY_DIR}/libraries CACHE PATH "Where libraries.sh puts archives")
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/packaging/portable/libraries.sh ${LFARM_ARCHIVES}
  COMMAND_ERROR_IS_FATAL ANY)

# lfarm_archives(PkgConfig::ZMQ zmq sodium): the archives that replace a target's libraries.
function(lfarm_archives target)
  set(archives)
  foreach(name ${ARGN})
    unset(ARCHIVE_${name} CACHE)  # what libraries.sh has made since goes first
    find_library(ARCHIVE_${name} lib${name}.a REQUIRED HINTS ${LFARM_ARCHIVES}/lib)
    list(APPEND archives ${ARCHIVE_${name}})
  endforeach()
  set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES ${archives} Threads::Threads
    ${CMAKE_DL_LIBS})
endfunction()
lfarm_archives(PkgConfig::CAPNP capnp kj)
lfarm_archives(PkgConfig::SODIUM sodium)
lfarm_archives(PkgConfig::ZMQ zmq sodium)
lfarm_archives(PkgConfig::ZIP zip z)
lfarm_archives(PkgConfig::HTTPLIB cpp-httplib ssl crypto z brotlidec brotlienc brotlicommon)
lfarm_archives(PkgConfig::OPENSSL ssl crypto)
lfarm_archives(PkgConfig::PROMETHEUS prometheus-cpp-core)
lfarm_archives(PkgConfig::XXHASH xxhash)
lfarm_archives(PkgConfig::SQLITE sqlite3)
lfarm_archives(PkgConfig::HIREDIS hiredis)

# What their packages' CMake files describe as shared libraries and nothing else.
add_library(simdjson::simdjson INTERFACE IMPORTED)
target_compile_definitions(simdjson::simdjson INTERFACE SIMDJSON_THREADS_ENABLED=1)
lfarm_archives(simdjson::simdjson simdjson)
add_library(spdlog::spdlog INTERFACE IMPORTED)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
add_library(lfarm_rocksdb INTERFACE)
lfarm_archives(lfarm_rocksdb rocksdb gflags snappy z bz2 lz4 zstd)
set(ROCKSDB_LIBRARY lfarm_rocksdb)

# What a newer glibc would be needed for. lld takes it from an archive wherever that stands in the line.
add_library(lfarm_newer_glibc STATIC packaging/portable/newer_glibc.cc)
target_compile_options(lfarm_newer_glibc PRIVATE -fno-builtin)
link_libraries($<BUILD_INTERFACE:lfarm_newer_glibc>)

# libgcc_s is shared: the static one needs a newer glibc, and exceptions of programs that load liblfarm
# pass through theirs.
add_link_options(-static-libstdc++)
