# Every bundled operator case through a farm of its own, compiled and compared with PyTorch.
add_test(NAME farm.operators COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/operators.sh
  $<TARGET_FILE_DIR:lfarm> ${CMAKE_SOURCE_DIR}/tests/fixtures/operators)
set_tests_properties(farm.operators PROPERTIES LABELS farm)
lfarm_time_limit(farm.operators 1800)
lfarm_sanitized_test(farm.operators)

# And every bundled loss with its gradients.
add_test(NAME farm.gradients COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/operators.sh
  $<TARGET_FILE_DIR:lfarm> ${CMAKE_SOURCE_DIR}/tests/fixtures/gradients)
set_tests_properties(farm.gradients PROPERTIES LABELS farm)
lfarm_time_limit(farm.gradients 1800)
lfarm_sanitized_test(farm.gradients)
