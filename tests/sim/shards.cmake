lfarm_test(shards_sim LABEL sim TIMEOUT 1800
  SOURCES shards_sim_test.cc shards_world.cc
  COMPONENTS cache/engine coordinator/shards)
