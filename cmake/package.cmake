# What `cmake --install` puts where, and the Debian packages that `cpack` makes of it. Components:
#   client       lfarm, its manual and its completions  lfarm-client, with the next
#   runtime      liblfarm                               (clients/runtime/CMakeLists.txt)
#   farm         coordinator, worker, units, manual     lfarm-farm
#   development  headers, CMake's and pkg-config's files liblfarm-dev (clients/runtime/CMakeLists.txt)
#   python       the Python package, where Debian's is  python3-lfarm
include(GNUInstallDirs)

set(written ${CMAKE_BINARY_DIR}/written)
set(shells bash zsh fish)
set(completions)
foreach(shell ${shells})
  add_custom_command(OUTPUT ${written}/lfarm.${shell}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${written}
    COMMAND lfarm completion ${shell} > ${written}/lfarm.${shell}
    DEPENDS lfarm VERBATIM)
  list(APPEND completions ${written}/lfarm.${shell})
endforeach()
add_custom_command(OUTPUT ${written}/man/lfarm.1
  COMMAND lfarm man ${written}/man
  DEPENDS lfarm lfarm-coordinator lfarm-worker VERBATIM)
add_custom_target(manual ALL DEPENDS ${completions} ${written}/man/lfarm.1)
add_dependencies(binaries manual)

install(TARGETS lfarm COMPONENT client)
install(DIRECTORY ${written}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT client
  PATTERN lfarm-coordinator.1 EXCLUDE PATTERN lfarm-worker.1 EXCLUDE)
install(FILES ${written}/lfarm.bash RENAME lfarm COMPONENT client
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${written}/lfarm.zsh RENAME _lfarm COMPONENT client
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${written}/lfarm.fish COMPONENT client
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(TARGETS lfarm-coordinator lfarm-worker COMPONENT farm)
install(FILES ${written}/man/lfarm-coordinator.1 ${written}/man/lfarm-worker.1 COMPONENT farm
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES packaging/lfarm-coordinator.service packaging/lfarm-signer.service
  packaging/lfarm-worker.service COMPONENT farm DESTINATION lib/systemd/system)
install(FILES packaging/lfarm-sysusers.conf RENAME lfarm.conf COMPONENT farm
  DESTINATION lib/sysusers.d)
install(FILES packaging/with-signer.conf COMPONENT farm DESTINATION ${CMAKE_INSTALL_DATADIR}/lfarm)
# Debian's Python looks in /usr/lib/python3/dist-packages, whatever its version. Elsewhere pip installs.
set(dist_packages lib/python3/dist-packages)
set(dist_info ${written}/lfarm-${PROJECT_VERSION}.dist-info)
file(WRITE ${dist_info}/METADATA
  "Metadata-Version: 2.1\nName: lfarm\nVersion: ${PROJECT_VERSION}\nRequires-Dist: numpy\n")
file(WRITE ${dist_info}/INSTALLER "dpkg\n")
file(WRITE ${dist_info}/entry_points.txt "[torch_dynamo_backends]\nlfarm = lfarm.compile:backend\n")
install(DIRECTORY ${dist_info} DESTINATION ${dist_packages} COMPONENT python)
install(DIRECTORY clients/python/lfarm DESTINATION ${dist_packages} COMPONENT python
  FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)
foreach(pair client:lfarm-client farm:lfarm-farm development:liblfarm-dev python:python3-lfarm)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES CHANGELOG.md COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "lfarm <lfarm@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "compiles PyTorch models on a farm and runs what it finds
 The command lfarm and the library liblfarm.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_RECOMMENDS "lfarm-farm, libopenblas0")
set(CPACK_DEBIAN_FARM_DESCRIPTION "farm that searches for the fastest kernels of PyTorch models
 The coordinator, the signer and the worker, as services that systemd starts.")
set(CPACK_DEBIAN_FARM_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/postinst)
set(CPACK_DEBIAN_FARM_PACKAGE_DEPENDS "clang-14 | clang | gcc")
set(CPACK_DEBIAN_FARM_PACKAGE_RECOMMENDS "lfarm-client, libopenblas0")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "files to build programs against liblfarm
 Headers for C and C++, and what CMake and pkg-config read.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "lfarm-client (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "runs PyTorch models with kernel plans that a farm found
 The Python package lfarm, and its backend of torch.compile.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
  "lfarm-client (= ${PROJECT_VERSION}), python3 (>= 3.9), python3-numpy")
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL client runtime farm development python)
include(CPack)
cpack_add_component_group(client)
cpack_add_component(client GROUP client)
cpack_add_component(runtime GROUP client)
cpack_add_component_group(farm)
cpack_add_component(farm GROUP farm)
cpack_add_component_group(development)
cpack_add_component(development GROUP development)
cpack_add_component_group(python)
cpack_add_component(python GROUP python)
