lfarm_test(shards_sim LABEL sim TIMEOUT 1800
  SOURCES shards/shards_sim_test.cc shards/world.cc
  COMPONENTS cache/engine coordinator/shards)
