"""What a consumer waits for before and while it joins its group: name servers and routes."""
