# A man page of what a program says of itself: -DPROGRAM= -DNAME= -DDOES= -DSEE_ALSO= -DVERSION= -DOUT=.
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --help ended with ${code}")
endif()
get_filename_component(folder ${PROGRAM} DIRECTORY)
string(REPLACE "${folder}/" "" help "${help}")
string(REPLACE "\\" "\\e" help "${help}")
string(REPLACE "-" "\\-" help "${help}")
string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" help "${help}")
string(TOUPPER ${NAME} title)
string(REPLACE "-" "\\-" name "${NAME}")
string(REPLACE "-" "\\-" other "${SEE_ALSO}")
file(WRITE ${OUT} ".TH ${title} 1 \"\" \"Versieve ${VERSION}\" \"Versieve\"
.SH NAME
${name} \\- ${DOES}
.SH DESCRIPTION
.nf
${help}.fi
.SH SEE ALSO
.BR ${other} (1),
/usr/share/doc/versieve/README.md
")
