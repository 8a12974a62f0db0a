"""Prints a message as Heat's MultipartMime makes it, with a message in it."""
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

outer, inner = MIMEMultipart(), MIMEMultipart()
script = MIMEText("#!/bin/sh\necho \u00e9\n", "x-shellscript", "utf-8")
script.add_header("Content-Disposition", "attachment", filename="tune.sh")
config = MIMEText("#cloud-config\nwrite_files: [{path: /a, content: secret-word}]\nruncmd: [a, b]\n", "cloud-config")
config["X-Merge-Type"] = "list(append)"
config.add_header("Content-Disposition", "attachment", filename="caf\u00e9.yaml")
inner.attach(script)
inner.attach(config)
outer.attach(inner)
outer.attach(MIMEText("#cloud-boothook\n", "plain"))
outer.attach(MIMEText("x", "x-cfninitdata"))
print(outer.as_string())
