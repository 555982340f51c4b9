# Files of kernel support code as C++ string constants.
#
# lfarm_support(worker/codegen/c cpu base.h sort.h) embeds worker/codegen/c/support/base.h and
# sort.h into the component of the folder, as cpu_support_base() and cpu_support_sort(). The folder's
# support.h declares these functions. See cmake/embed_support.cmake for what the text leaves out.
function(lfarm_support path prefix)
  lfarm_target_name(${path} target)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed_support.cmake)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/support.cc)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/${path}/support/ OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DPREFIX=${prefix}_support_
            -DHEADER=${path}/support.h -DOUT=${generated} -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "embedding ${path}/support" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
