lfarm_test(wire_codec LABEL unit SOURCES wire_codec_test.cc COMPONENTS common/wire)
