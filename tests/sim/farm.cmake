lfarm_test(farm_sim LABEL sim
  SOURCES farm_auditor.cc farm_sim_test.cc farm_world.cc
  COMPONENTS coordinator/farm)
